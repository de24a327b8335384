//! The oldest Rust that is supported: one number, which the checks use and all pages name.

use std::fs;
use std::path::PathBuf;

use crate::Failure;
use crate::cargo::{Step, rustc_says, workspace_root};
use crate::package::PUBLISHED;

/// Compiles what is published with the oldest supported Rust, whichever releases of the dependencies `Cargo.lock` names.
///
/// # Errors
///
/// As [`check`], or when a crate does not compile.
pub(crate) fn run() -> Result<(), Failure> {
    check()?;
    let packages = PUBLISHED.iter().flat_map(|name| ["--package", name]).collect::<Vec<_>>();
    Step::new("check").args(&packages).arg("--all-features").run()
}

/// Checks that this toolchain is the oldest supported one, so that whatever else passes with it passes for all users, and
/// that pages and workflows name it.
///
/// # Errors
///
/// When this toolchain, a page or a workflow has another version than `rust-version` in `Cargo.toml`.
pub(crate) fn check() -> Result<(), Failure> {
    let supported = supported(&read("Cargo.toml")?)?;
    let toolchain = rustc_says("release")?;
    if minor(&toolchain) != supported {
        return Err(Failure::message(format!(
            "this is Rust {toolchain}, and `rust-version` in Cargo.toml is {supported}; code that passes here may not \
             compile with {supported}: use that toolchain (`rustup default {supported}`), or raise `rust-version`"
        )));
    }
    let readmes = PUBLISHED.iter().map(|name| format!("{name}/README.md"));
    let pages = ["README.md", "CONTRIBUTING.md"].map(str::to_owned).into_iter().chain(readmes);
    for (page, before) in pages.map(|page| (page, "Rust ")).chain([workflow()]) {
        let named = versions_after(&read(&page)?, before);
        if named.is_empty() || named.iter().any(|version| *version != supported) {
            return Err(Failure::message(format!(
                "{page} names Rust {named:?}, and `rust-version` in Cargo.toml is {supported}; write {supported} there"
            )));
        }
    }
    Ok(())
}

fn workflow() -> (String, &'static str) {
    (".github/workflows/ci.yml".to_owned(), "TOOLCHAIN: \"")
}

fn read(file: &str) -> Result<String, Failure> {
    let path = PathBuf::from(workspace_root()).join(file);
    fs::read_to_string(path)
        .map_err(|error| Failure::message(format!("cannot read {file}: {error}")))
}

fn supported(manifest: &str) -> Result<String, Failure> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \""));
    let version = line.and_then(|line| line.strip_suffix('"')).map(str::to_owned);
    version.ok_or_else(|| Failure::message("Cargo.toml has no `rust-version`; add it"))
}

/// The 1.95 of 1.95.0.
fn minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// The versions that stand directly after `before`. A number without a dot is no version.
fn versions_after(text: &str, before: &str) -> Vec<String> {
    let ends = |c: char| !c.is_ascii_digit() && c != '.';
    let after = text.split(before).skip(1);
    let words = after.filter_map(|rest| rest.split(ends).next());
    let words = words.map(|word| word.trim_end_matches('.'));
    words.filter(|word| word.contains('.')).map(minor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let manifest = "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.95\"\n";
        assert_eq!(supported(manifest).unwrap(), "1.95");
        assert!(supported("[workspace.package]\n").is_err());
        assert_eq!(minor("1.95.0"), "1.95");
        let page = "Rust and Java. Rust 1.95 or later; with Rust 1.96.1, and Rust 2024.";
        assert_eq!(versions_after(page, "Rust "), ["1.95", "1.96"]);
    }
}
