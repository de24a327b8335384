//! What ARCHITECTURE.md says of the source tree holds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines; "about 400".
const LONGEST: usize = 450;

/// A crate whose modules import downward only.
struct Layout {
    src: &'static str,
    /// Level by module; the longest matching prefix counts.
    levels: &'static [(&'static str, u8)],
    /// True if modules of one level may import each other, unless they are `strangers`.
    siblings: bool,
    strangers: &'static [&'static str],
    /// What modules import from the root of the crate.
    root_items: &'static [&'static str],
    /// The test finds at least so many imports, or it does not see the code any more.
    imports: usize,
}

const LOCK_RUNTIME: Layout = Layout {
    src: "lock-runtime/src",
    levels: &[
        ("error", 0),
        ("clock", 0),
        ("fence", 0),
        ("key", 0),
        ("options", 0),
        ("settings", 0),
        ("site", 0),
        ("observe", 1),
        ("policy", 1),
        ("store", 1),
        ("store::memory", 2),
        ("store::redis", 2),
        ("store::compose", 2),
        ("gate", 2),
        ("lease", 2),
        ("owned_hold", 3),
        ("scope", 4),
        ("guard", 5),
        ("acquire", 6),
        ("mutex", 7),
        ("fair_mutex", 7),
        ("rw_lock", 7),
        ("semaphore", 7),
        ("latch", 7),
        ("multi_lock", 7),
        ("quorum_lock", 7),
        ("any_lock", 7),
        ("client", 8),
        ("quorum", 9),
        ("connect", 9),
        ("private", 9),
    ],
    siblings: true,
    strangers: &["store::memory", "store::redis", "store::compose", "gate", "lease"],
    root_items: &["", "LockSite"],
    imports: 500,
};

const LOCK_TOWER: Layout = Layout {
    src: "lock-tower/src",
    levels: &[
        ("error", 0),
        ("held", 0),
        ("http::error", 0),
        ("http::frames", 0),
        ("axum", 1),
        ("locked", 1),
        ("layer", 2),
        ("future", 2),
        ("service", 3),
        ("http::request::route", 1),
        ("http::request::template", 1),
        ("http::request::read_ahead", 1),
        ("http::request::key", 2),
        ("http::answer::refusal", 3),
        ("http::answer::grpc", 4),
        ("http::answer::problem", 5),
        ("http::answer::status", 5),
        ("http::layer::plan", 6),
        ("http::layer::cache", 6),
        ("http::layer::routes", 6),
        ("http::layer", 7),
        ("http::layer::builder", 8),
        ("http::call::reaper", 9),
        ("http::call::body", 10),
        ("http::call::serving", 11),
        ("http::call::future", 12),
        ("http::call::service", 13),
        ("http", 14),
    ],
    siblings: false,
    strangers: &[],
    root_items: &[],
    imports: 70,
};

const BENCHES: Layout = Layout {
    src: "benches/src",
    levels: &[
        ("record", 0),
        ("awake", 0),
        ("contender", 0),
        ("drive", 1),
        ("bench", 2),
        ("case", 3),
        ("args", 4),
        ("report", 5),
    ],
    siblings: false,
    strangers: &[],
    root_items: &["Result"],
    imports: 30,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

fn files(under: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

impl Layout {
    fn module_of(&self, path: &str) -> Option<(&'static str, u8)> {
        let belongs = |module: &str| path == module || path.starts_with(&format!("{module}::"));
        let modules = self.levels.iter().filter(|(module, _)| belongs(module));
        modules.max_by_key(|(module, _)| module.len()).copied()
    }

    /// Says what is wrong with the import, if anything is; `None` if it names no module.
    fn check(&self, path: &str, import: &str) -> Option<Result<(), String>> {
        let Some((module, level)) = self.module_of(path) else {
            return Some(Err(format!("{path} has no level")));
        };
        let Some((used, its)) = self.module_of(import) else {
            let item = import.split("::").next().unwrap_or_default();
            let known = self.root_items.contains(&item);
            return (!known).then(|| Err(format!("{path} imports {import:?}, which is no module")));
        };
        if used == module {
            return Some(Ok(()));
        }
        let strangers = self.strangers.contains(&used) && self.strangers.contains(&module);
        let downward = its < level || (its == level && self.siblings);
        Some(match downward && !strangers {
            true => Ok(()),
            false => Err(format!("{path} (level {level}) imports {import} (level {its})")),
        })
    }
}

/// The paths below `crate::` and `super::` that the code of `module` names, outside comments and test
/// modules.
fn imports(module: &str, source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let module: Vec<_> = module.split("::").collect();
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = BTreeSet::new();
    for line in code.lines().map(|line| line.split("//").next().unwrap_or_default()) {
        for path in line.split(|c: char| !is_path(c)) {
            let segments: Vec<_> = path.trim_end_matches("::").split("::").collect();
            let root = segments.iter().rposition(|part| matches!(*part, "crate" | "super"));
            let Some(at) = root else { continue };
            // A visibility such as `pub(super)` imports nothing.
            if at + 1 == segments.len() && !path.ends_with("::") {
                continue;
            }
            let above =
                if segments[at] == "crate" { 0 } else { module.len().saturating_sub(at + 1) };
            found.insert([&module[..above], &segments[at + 1..]].concat().join("::"));
        }
    }
    found
}

#[test]
fn no_module_imports_upward() {
    for layout in [LOCK_RUNTIME, LOCK_TOWER, BENCHES] {
        let src = root().join(layout.src);
        let mut seen = 0;
        for file in files(&src, "rs") {
            let path = file.strip_prefix(&src).unwrap().with_extension("");
            let module = path.to_str().unwrap().trim_end_matches("/mod").replace('/', "::");
            if matches!(module.as_str(), "lib" | "main") {
                continue;
            }
            for import in imports(&module, &fs::read_to_string(&file).unwrap()) {
                if let Some(checked) = layout.check(&module, &import) {
                    seen += 1;
                    checked.unwrap_or_else(|problem| panic!("{}: {problem}", layout.src));
                }
            }
        }
        assert!(seen > layout.imports, "only {seen} imports found in {}", layout.src);
    }
}

#[test]
fn the_redis_crate_has_one_home() {
    let src = root().join("lock-runtime/src");
    for file in files(&src, "rs") {
        let path = file.strip_prefix(&src).unwrap();
        let names_it = fs::read_to_string(&file)
            .unwrap()
            .lines()
            .any(|line| line.starts_with("use redis::") || line.contains(" redis::"));
        assert!(!names_it || path.starts_with("store/redis"), "{} names it", path.display());
    }
}

#[test]
fn files_are_of_readable_length() {
    for folder in
        ["lock-macros", "lock-runtime", "lock-tower", "tests", "benches", "xtask", "examples"]
    {
        for file in files(&root().join(folder), "rs") {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= LONGEST, "{} has {lines} lines", file.display());
        }
    }
}

/// The number of a rule (`S-14`) tells a reader of the code where to look, and a user nothing: it stands in
/// comments and tests, and in no documentation.
#[test]
fn documentation_has_no_numbers_of_rules() {
    let is_number = |text: &str| {
        text.match_indices("S-").any(|(at, _)| {
            let (before, after) = (text[..at].chars().next_back(), text[at + 2..].chars().next());
            !before.is_some_and(char::is_alphanumeric) && after.is_some_and(|c| c.is_ascii_digit())
        })
    };
    let mut lines_read = 0;
    for folder in ["lock-macros", "lock-runtime", "lock-tower"] {
        let src = root().join(folder).join("src");
        let code = files(&src, "rs").into_iter().map(|file| (file, true));
        let pages = files(&src, "md").into_iter().map(|file| (file, false));
        for (file, is_code) in code.chain(pages) {
            for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
                let line = line.trim_start();
                let is_documentation =
                    !is_code || line.starts_with("///") || line.starts_with("//!");
                lines_read += usize::from(is_documentation);
                let wrong = is_documentation && is_number(line);
                assert!(!wrong, "{}:{}: {line}", file.display(), number + 1);
            }
        }
    }
    assert!(lines_read > 4_000, "only {lines_read} lines of documentation found");
    assert!(is_number("/// Passed on (S-14).") && !is_number("/// an RS-232 port, S-curves"));
}

/// One name for the field, in every event and span.
#[test]
fn events_name_locks_by_one_field() {
    for folder in ["lock-macros", "lock-runtime", "lock-tower"] {
        for file in files(&root().join(folder).join("src"), "rs") {
            let text = fs::read_to_string(&file).unwrap();
            let wrong = text.lines().find(|line| line.contains("lock.key ="));
            assert!(wrong.is_none(), "{}: {wrong:?} instead of `lock.name`", file.display());
        }
    }
}

#[test]
fn every_script_states_its_contract() {
    let scripts = files(&root().join("lock-runtime/src/store/redis"), "lua");
    assert!(scripts.len() >= 4);
    for script in scripts {
        let text = fs::read_to_string(&script).unwrap();
        let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
        for part in ["KEYS[", "ARGV[", "returns", "S-"] {
            assert!(header.contains(part), "{} does not state {part:?}", script.display());
        }
    }
}
