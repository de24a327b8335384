//! How large each crate is: lines, files, and what it makes public.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Failure, cargo, package};

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
    let crates = package::PUBLISHED.iter().map(|name| (*name, root.join(name).join("src")));
    for (name, folder) in crates.chain([("tests", root.join("tests"))]) {
        let mut lines = Vec::new();
        files(&folder, name != "tests", &mut |path| {
            lines.push(Lines::of(&fs::read_to_string(path)?));
            Ok(())
        })
        .map_err(|error| Failure::message(format!("{}: {error}", folder.display())))?;
        lines.sort_by_key(|file| file.code);
        let sum = |count: fn(&Lines) -> usize| lines.iter().map(count).sum::<usize>();
        let median = lines.get(lines.len() / 2).map_or(0, |file| file.code);
        let (code, doc, comments) = (sum(|it| it.code), sum(|it| it.doc), sum(|it| it.comments));
        let api = fs::read_to_string(root.join(format!("tests/api/{name}.txt")));
        let [types, functions] = match api {
            Ok(api) => public(&api).map(|count| count.to_string()),
            Err(_) => ["–", "–"].map(str::to_owned),
        };
        let files = lines.len();
        println!(
            "| `{name}` | {files} | {code} | {doc} | {comments} | {median} | {types} | {functions} |"
        );
    }
    Ok(())
}

/// Visits the Rust files below a folder; with `of_crate` without those that hold tests of its inside.
fn files(
    folder: &Path,
    of_crate: bool,
    visit: &mut dyn FnMut(&Path) -> std::io::Result<()>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if of_crate && path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            files(&path, of_crate, visit)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path)?;
        }
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq)]
struct Lines {
    code: usize,
    doc: usize,
    comments: usize,
}

impl Lines {
    /// Tests are the last module of a file.
    fn of(text: &str) -> Self {
        let mut lines = Self::default();
        let mut rest = text.lines().map(str::trim).peekable();
        while let Some(line) = rest.next() {
            if line == "#[cfg(test)]" && rest.peek().is_some_and(|next| next.starts_with("mod ")) {
                if rest.peek().is_some_and(|next| next.ends_with('{')) {
                    break;
                }
                rest.next();
                continue;
            }
            match line {
                "" => {}
                line if line.starts_with("///") || line.starts_with("//!") => lines.doc += 1,
                line if line.starts_with("//") => lines.comments += 1,
                _ => lines.code += 1,
            }
        }
        lines
    }
}

/// Types, with traits, and functions: free ones, those of a type, and those of a trait of the crate. An item with a second
/// path counts once, as do types of one name; what a type has from a trait does not count.
fn public(api: &str) -> [usize; 2] {
    let (mut types, mut functions) = (BTreeSet::new(), BTreeSet::new());
    let mut is_of_trait = false;
    for line in api.lines() {
        if line.starts_with("impl") {
            is_of_trait = line.contains(" for ");
            continue;
        }
        let Some((is_function, path)) = item(line) else { continue };
        let mut segments = path.rsplit("::").map(str::to_owned);
        let (name, parent) = (segments.next(), segments.next().unwrap_or_default());
        let in_type = parent.starts_with(char::is_uppercase);
        is_of_trait &= in_type;
        match (is_function, in_type) {
            // Of a type without a path, such as `bool`: the names of the crates have an underscore.
            (true, false) if path.matches("::").count() == 1 && !parent.contains('_') => {}
            (true, _) if !is_of_trait => _ = functions.insert((in_type.then_some(parent), name)),
            (false, false) => _ = types.insert(name),
            _ => {}
        }
    }
    [types.len(), functions.len()]
}

/// The path of a type or function, without its parameters, and whether it is a function.
fn item(line: &str) -> Option<(bool, String)> {
    let mut words = line.split_inclusive(' ');
    let keyword = words
        .find(|word| ["struct ", "enum ", "union ", "trait ", "type ", "fn "].contains(word))?;
    let (mut path, mut depth) = (String::new(), 0);
    for c in words.flat_map(str::chars) {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' | ' ' if depth == 0 => break,
            c if depth == 0 => path.push(c),
            _ => {}
        }
    }
    Some((keyword == "fn ", path.trim_end_matches(':').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let text = "//! A\n\nuse a;\n/// B\nfn b() {\n    // c\n    d(); // e\n}\n\n#[cfg(test)]\nmod f;\n\
                    #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        assert_eq!(Lines::of(text), Lines { code: 4, doc: 2, comments: 1 });
    }

    #[test]
    fn an_item_counts_once_and_a_trait_does_not() {
        let api = "pub mod a\n#[non_exhaustive] pub enum a::b::Kind\npub a::b::Kind::One\n\
                   impl a::b::Kind\npub const fn a::b::Kind::name(self) -> &'static str\n\
                   impl core::fmt::Debug for a::b::Kind\npub fn a::b::Kind::fmt(&self, &mut core::fmt::Formatter<'_>)\n\
                   pub struct a::Lock<T>(_)\nimpl<T> a::Lock<T>\npub async fn a::Lock<T>::take(&self)\n\
                   pub fn a::Lock<T>::give(&self)\nimpl<F: Fn() -> T> core::future::Future for a::Lock<F>\n\
                   pub type a::Lock<F>::Output = ()\npub fn a::Lock<F>::poll(&self)\n\
                   #[non_exhaustive] pub enum a::Kind\nimpl a::b::Kind\n\
                   pub const fn a::b::Kind::name(self) -> &'static str\npub fn my_lock::free()\n\
                   impl my_lock::Part for bool\npub fn bool::write(&self)\n";
        assert_eq!(public(api), [2, 4]);
    }
}
