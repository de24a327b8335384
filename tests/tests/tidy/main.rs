//! What readers of the sources and of the pages rely on: links, names, numbers of rules, heads of scripts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod faults;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose documentation and events users read.
const CRATES: [&str; 5] = ["lock-macros", "lock-runtime", "lock-sqlx", "lock-syntax", "lock-tower"];

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
    for folder in CRATES {
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
    for folder in CRATES {
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
