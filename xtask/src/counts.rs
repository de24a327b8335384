//! How large each crate is: lines, files, and what it makes public.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::checks::PUBLISHED;
use crate::{Failure, cargo};

/// Prints a table in Markdown: the published crates, one in a row, and `tests`.
///
/// Lines are those below `src`, without blank ones and the crate's own tests; for `tests` all. What is public is read from
/// `tests/api`, which `cargo xtask api` compares with the code; a crate without a file there has no users of its types.
///
/// # Errors
///
/// When a file cannot be read.
pub(crate) fn run() -> Result<(), Failure> {
    println!(
        "| crate | files | code | doc | comments | median file | public types | public functions |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let root = PathBuf::from(cargo::workspace_root());
    let crates = PUBLISHED.iter().map(|name| (*name, root.join(name).join("src")));
    for (name, folder) in crates.chain([("tests", root.join("tests"))]) {
        let mut lines = Vec::new();
        visit(&folder, name != "tests", &mut lines)
            .map_err(|error| Failure::message(format!("{}: {error}", folder.display())))?;
        lines.sort_unstable();
        let [code, doc, comments] =
            [0, 1, 2].map(|kind| lines.iter().map(|file| file[kind]).sum::<usize>());
        let median = lines.get(lines.len() / 2).map_or(0, |file| file[0]);
        let api = fs::read_to_string(root.join(format!("tests/api/{name}.txt")));
        let public = api.map_or("– | –".to_owned(), |api| public(&api));
        let files = lines.len();
        println!("| `{name}` | {files} | {code} | {doc} | {comments} | {median} | {public} |");
    }
    Ok(())
}

/// Counts the Rust files below a folder; `of_crate` without those that hold tests of its inside.
fn visit(folder: &Path, of_crate: bool, lines: &mut Vec<[usize; 3]>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_tests = path.file_stem().is_some_and(|name| name == "tests");
        if of_crate && is_tests {
            continue;
        }
        if path.is_dir() {
            visit(&path, of_crate, lines)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            lines.push(count(&fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// Lines of code, of documentation, and of comments. Tests are the last module of a file.
fn count(text: &str) -> [usize; 3] {
    let mut lines = [0; 3];
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let is_doc = line.starts_with("///") || line.starts_with("//!");
        lines[if is_doc { 1 } else { usize::from(line.starts_with("//")) * 2 }] += 1;
    }
    lines
}

/// Types, with traits, and functions. What a type has from a trait does not count, and an item with several paths counts once.
fn public(api: &str) -> String {
    let (mut types, mut functions) = (BTreeSet::new(), BTreeSet::new());
    let mut is_of_trait = false;
    for line in api.lines() {
        let named = |keyword: &str| line.split_once(keyword)?.1.split([' ', '(']).next();
        // The last names of a path: of `a::Lock::take`, a method, the two that tell it from others.
        let last = |path: &str, count: usize| {
            path.rsplit("::").take(count).map(str::to_owned).collect::<Vec<_>>()
        };
        if line.starts_with("impl") {
            is_of_trait = line.contains(" for ");
        } else if let Some(path) = named(" fn ").filter(|_| !is_of_trait) {
            functions.insert(last(path, 2));
        } else if let Some(path) = [" struct ", " enum ", " trait "].into_iter().find_map(named) {
            types.insert(last(path, 1));
            is_of_trait = false;
        }
    }
    format!("{} | {}", types.len(), functions.len())
}
