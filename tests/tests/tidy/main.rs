//! What ARCHITECTURE.md says of the source tree holds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod faults;
mod pages;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines: about 700 of code, with its comments.
const LONGEST: usize = 900;

/// Level by module of `lock-runtime`; the longest matching prefix counts.
const LEVELS: [(&str, u8); 44] = [
    ("backoff", 0),
    ("opaque", 0),
    ("process", 0),
    ("own_runtime", 0),
    ("error", 0),
    ("clock", 0),
    ("fence", 0),
    ("key", 0),
    ("options", 0),
    ("site", 0),
    ("reuse", 0),
    ("timer", 0),
    ("waits", 1),
    ("liveness", 0),
    ("observe", 1),
    ("order", 1),
    ("place", 2),
    ("policy", 2),
    ("shadow", 1),
    ("store", 1),
    ("store::kind", 0),
    ("store::memory", 2),
    ("store::redis", 2),
    ("store::compose", 2),
    ("gate", 2),
    ("lease", 2),
    ("owned_hold", 3),
    ("scope", 4),
    ("guard", 6),
    ("acquire", 6),
    ("mutex", 7),
    ("fair_mutex", 7),
    ("rw_lock", 7),
    ("semaphore", 7),
    ("latch", 7),
    ("multi_lock", 7),
    ("any_lock", 7),
    ("survey", 7),
    ("admin", 8),
    ("client", 8),
    ("blocking", 9),
    ("__layer_v1", 9),
    ("private", 9),
    ("fuzz", 9),
];

/// Level by module inside of `store::redis`.
const REDIS_LEVELS: [(&str, u8); 8] = [
    ("store::redis::server", 0),
    ("store::redis::endpoint", 1),
    ("store::redis::scripts", 2),
    ("store::redis::link", 3),
    ("store::redis::requests", 4),
    ("store::redis::store", 5),
    ("store::redis::cluster", 6),
    ("store::redis::fuzz", 7),
];

/// Level by module of `lock-tower`. Modules of one level must not know each other.
const TOWER_LEVELS: [(&str, u8); 37] = [
    ("error", 0),
    ("held", 0),
    ("http::error", 0),
    ("http::kept", 0),
    ("http::methods", 0),
    ("http::refusal_kind", 0),
    ("http::value_type", 0),
    ("extract", 1),
    ("http::body_hold", 1),
    ("http::read_ahead", 1),
    ("http::response", 1),
    ("http::router", 1),
    ("http::settings", 1),
    ("http::template", 1),
    ("http::told", 1),
    ("locked", 1),
    ("future", 2),
    ("http::grpc", 2),
    ("http::held_body", 2),
    ("http::route", 2),
    ("layer", 2),
    ("http::answer", 3),
    ("http::body", 3),
    ("http::checks", 3),
    ("http::values", 3),
    ("service", 3),
    ("http::key", 4),
    ("http::http_settings", 5),
    ("http::plan", 6),
    ("http::route_table", 7),
    ("http::plan_cache", 8),
    ("http::layer", 9),
    ("http::builder", 10),
    ("http::waiting_body", 10),
    ("http::future", 11),
    ("http::service", 12),
    ("http", 13),
];

/// Level-2 modules that must not know each other.
const STRANGERS: [&str; 5] = ["store::memory", "store::redis", "store::compose", "gate", "lease"];

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

type Levels = &'static [(&'static str, u8)];

fn module_of(path: &str, levels: Levels) -> Option<(&'static str, u8)> {
    let belongs = |module: &str| path == module || path.starts_with(&format!("{module}::"));
    let found = levels.iter().filter(|(module, _)| belongs(module));
    found.max_by_key(|(module, _)| module.len()).copied()
}

/// The path of each module below the folder, and its code without comments and test modules.
fn modules(src: &str) -> Vec<(String, String)> {
    let src = root().join(src);
    let module = |file: PathBuf| {
        let path = file.strip_prefix(&src).unwrap().with_extension("");
        let path = path.to_str().unwrap().trim_end_matches("/mod").replace('/', "::");
        let source = fs::read_to_string(&file).unwrap();
        let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        // A folder that re-exports its own modules names them and does not use them.
        let code = code.lines().filter(|line| !line.starts_with("pub use self::"));
        let code = code.map(|line| line.split("//").next().unwrap_or_default());
        (path, code.collect::<Vec<_>>().join("\n"))
    };
    files(&src, "rs")
        .into_iter()
        .map(module)
        .filter(|(path, _)| path != "lib" && path != "main")
        .collect()
}

/// The paths after `root`, each name of a group `{a, b::c}` by itself.
fn paths_after(code: &str, root: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        let before = code[..at].chars().next_back();
        let rest = &code[at + root.len()..];
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let path = &rest[..end];
        if before.is_some_and(is_name) {
            continue;
        }
        if !rest[end..].starts_with('{') {
            found.insert(path.to_owned());
            continue;
        }
        // The first names of the group say which module it is.
        let mut depth = 0;
        let mut name = String::new();
        for c in rest[end..].chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if is_name(c) && depth == 1 {
                name.push(c);
            } else if !name.is_empty() && (c == ',' || c == '}' || c == '{') {
                found.insert(format!("{path}{}", std::mem::take(&mut name)));
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// The `crate::…` and `super::…` paths that the module names, as paths from the root. What it re-exports by `self::…`
/// is its own.
fn imports(module: &str, code: &str) -> BTreeSet<String> {
    let mut found = paths_after(code, "crate::");
    for path in paths_after(code, "super::") {
        let mut base = module.rsplit_once("::").map_or("", |(base, _)| base);
        let mut rest = path.as_str();
        while let Some(inner) = rest.strip_prefix("super::") {
            base = base.rsplit_once("::").map_or("", |(base, _)| base);
            rest = inner;
        }
        found.insert(format!("{base}::{rest}").trim_start_matches(':').to_owned());
    }
    found
}

#[test]
fn no_module_imports_upward() {
    let mut seen = 0;
    for (path, code) in modules("lock-runtime/src") {
        let of = |path: &str| module_of(path, &LEVELS);
        let (module, level) = of(&path).unwrap_or_else(|| panic!("{path} has no level"));
        for import in imports(&path, &code) {
            let Some((used, its)) = of(&import) else { continue };
            seen += usize::from(used != module);
            assert!(its <= level, "{path} (level {level}) imports {import} (level {its})");
            let strangers = STRANGERS.contains(&used) && STRANGERS.contains(&module);
            assert!(used == module || !strangers, "{path} must not know {used}");
        }
    }
    assert!(seen > 80, "only {seen} imports found: the test does not see the code any more");
}

#[test]
fn layers_of_the_redis_store_import_downward() {
    let mut seen = 0;
    for (path, code) in modules("lock-runtime/src") {
        let of = |path: &str| module_of(path, &REDIS_LEVELS);
        if !path.starts_with("store::redis::") {
            continue;
        }
        let (module, level) = of(&path).unwrap_or_else(|| panic!("{path} has no layer"));
        for import in imports(&path, &code) {
            // What the root re-exports is above all layers.
            let is_root =
                import.strip_prefix("store::redis::").is_some_and(|name| !name.contains("::"));
            let used = of(&import);
            assert!(!is_root || used.is_some(), "{path} imports {import} from the root");
            let Some((used, its)) = used else { continue };
            seen += usize::from(used != module);
            assert!(its <= level, "{path} (layer {level}) imports {import} (layer {its})");
        }
    }
    assert!(seen > 40, "only {seen} imports found: the test does not see the code any more");
}

/// Checks that each module imports only modules of lower levels; `from_root` are the names that modules import
/// from the root of the crate.
fn check_strictly_downward(src: &str, levels: Levels, from_root: &[&str], at_least: usize) {
    let mut seen = 0;
    for (path, code) in modules(src) {
        let (module, level) =
            module_of(&path, levels).unwrap_or_else(|| panic!("{src}: {path} has no level"));
        for import in imports(&path, &code) {
            let Some((used, its)) = module_of(&import, levels) else {
                let known = from_root.contains(&import.as_str());
                assert!(known, "{src}: {path} imports {import:?} from the root");
                continue;
            };
            seen += usize::from(used != module);
            let downward = used == module || its < level;
            assert!(downward, "{src}: {path} (level {level}) imports {import} (level {its})");
        }
    }
    assert!(seen > at_least, "only {seen} imports found: the test does not see the code any more");
}

#[test]
fn modules_of_lock_tower_import_downward() {
    check_strictly_downward("lock-tower/src", &TOWER_LEVELS, &[], 60);
}

#[test]
fn paths_of_imports_are_read() {
    let code = "use super::{Link, b::{C, D}, e};\nuse super::super::f::G;\nuse crate::h::i;";
    let found: Vec<_> = imports("x::y::z", code).into_iter().collect();
    assert_eq!(found, ["h::i", "x::f::G", "x::y::Link", "x::y::b::", "x::y::e"]);
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
    for folder in [
        "lock-macros",
        "lock-runtime",
        "lock-sqlx",
        "lock-syntax",
        "lock-tower",
        "tests",
        "benches",
        "fuzz",
        "xtask",
        "examples",
        "models",
    ] {
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
    for folder in ["lock-macros", "lock-runtime", "lock-sqlx", "lock-syntax", "lock-tower"] {
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
    for folder in ["lock-macros", "lock-runtime", "lock-sqlx", "lock-syntax", "lock-tower"] {
        for file in files(&root().join(folder).join("src"), "rs") {
            let text = fs::read_to_string(&file).unwrap();
            let wrong = text.lines().find(|line| line.contains("lock.key ="));
            assert!(wrong.is_none(), "{}: {wrong:?} instead of `lock.name`", file.display());
        }
    }
}

#[test]
fn every_script_states_its_contract() {
    let folder = root().join("lock-runtime/src/store/redis/scripts");
    let scripts = files(&folder, "lua");
    assert!(scripts.len() >= 20);
    let elsewhere = files(&root().join("lock-runtime/src"), "lua");
    assert_eq!(elsewhere.len(), scripts.len(), "all scripts are in {}", folder.display());
    for script in scripts {
        let text = fs::read_to_string(&script).unwrap();
        let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
        for part in ["KEYS[", "ARGV[", "returns", "S-"] {
            assert!(header.contains(part), "{} does not state {part:?}", script.display());
        }
    }
}
