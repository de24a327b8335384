//! A copy of the sources with all mutants, each behind a switch.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::bugs::BUGS;
use super::rust::Source;
use super::{Mutant, lua};
use crate::cargo;

/// Changes of the copy without which no mutant can be switched on: file, text, and what takes its place.
const WIRING: [(&str, &str, &str); 7] = [
    (
        "lock-runtime/src/lib.rs",
        "\npub mod store;",
        "\n/// Mutants.\n#[doc(hidden)]\npub mod mutants;\npub mod store;",
    ),
    (
        "models/tasks/src/lib.rs",
        "\npub mod scenarios;",
        "\n#[path = \"../../../lock-runtime/src/mutants.rs\"]\nmod mutants;\npub mod scenarios;",
    ),
    (
        SCRIPTS,
        "        let source = [\"local call = redis.call\\n\", &source].concat();",
        "        let source = crate::mutants::in_script([\"local call = redis.call\\n\", &source].concat());",
    ),
    (
        SCRIPTS,
        "    fn text(&self, publish: Publish) -> &Text {",
        "    pub(crate) fn runs(&self) {\n        crate::mutants::runs(&self.everywhere.source);\n    }\n\n    fn text(&self, publish: Publish) -> &Text {",
    ),
    (
        SCRIPTS,
        "        let text = self.text(publish);",
        "        self.runs();\n        let text = self.text(publish);",
    ),
    (
        SCRIPTS,
        "        let mut call = Packed::new(",
        "        self.runs();\n        let mut call = Packed::new(",
    ),
    (
        "lock-runtime/src/store/redis/requests/combine/queue.rs",
        "            call.arg(first.part.number)",
        "            first.part.script.runs();\n            call.arg(first.part.number)",
    ),
];
const SCRIPTS: &str = "lock-runtime/src/store/redis/scripts/mod.rs";

type Inner<'a> = &'a dyn Fn(usize, usize) -> String;

/// A change of a text, which may keep parts of it.
pub(super) struct Edit {
    range: Range<usize>,
    write: Box<dyn Fn(Inner<'_>) -> String>,
}

impl Edit {
    pub(super) fn new(range: Range<usize>, write: impl Fn(Inner<'_>) -> String + 'static) -> Self {
        Self { range, write: Box::new(write) }
    }

    fn cuts(&self, other: &Range<usize>) -> bool {
        let (one, other) = (&self.range, other);
        let apart = one.end <= other.start || other.end <= one.start;
        let around = one.start <= other.start && other.end <= one.end;
        !apart && !around
    }
}

/// A part of the text with the edits in it, which are in order, outer before inner.
fn edited(source: &str, part: Range<usize>, edits: &[Edit]) -> String {
    let (mut text, mut at) = (String::new(), part.start);
    for (n, edit) in edits.iter().enumerate() {
        if edit.range.start >= at && edit.range.end <= part.end {
            text.push_str(&source[at..edit.range.start]);
            text.push_str(&(edit.write)(&|from, to| edited(source, from..to, &edits[n + 1..])));
            at = edit.range.end;
        }
    }
    text + &source[at..part.end]
}

/// The text of a file with the bugs and those mutants that belong there.
///
/// # Errors
///
/// When the text of a bug is not there exactly once: the sources have changed, and the bug has to follow.
pub(super) fn planted(file: &str, source: &str, mutants: &[&Mutant]) -> Result<String, String> {
    let is_on = |number: usize| match file.starts_with("lock-tower/") {
        true => format!("lock_runtime::mutants::is_on({number})"),
        false => format!("crate::mutants::is_on({number})"),
    };
    let mut edits = Vec::new();
    let bugs = BUGS.iter().enumerate().filter(|(_, bug)| bug.file == file).map(|(n, bug)| {
        let switch = if file.ends_with(".lua") {
            format!("⟦{}|true|false⟧", n + 1)
        } else {
            is_on(n + 1)
        };
        (bug.find, bug.plant.replace("PLANTED", &switch))
    });
    let wiring = WIRING
        .iter()
        .filter(|(its, ..)| *its == file)
        .map(|(_, find, plant)| (*find, (*plant).to_owned()));
    for (find, plant) in bugs.chain(wiring) {
        let mut places = source.match_indices(find);
        let (Some((at, _)), None) = (places.next(), places.next()) else {
            return Err(format!("{file} does not have `{find}` exactly once"));
        };
        edits.push(Edit::new(at..at + find.len(), move |_| plant.clone()));
    }
    let mine: Vec<_> = mutants.iter().filter(|mutant| mutant.file == file).collect();
    if edits.is_empty() && mine.is_empty() {
        return Ok(source.to_owned());
    }
    let fixed: Vec<_> = edits.iter().map(|edit| edit.range.clone()).collect();
    let parsed = Source::new(source);
    let generated = mine.into_iter().filter_map(|mutant| {
        let (number, new) = (mutant.number, mutant.what.clone());
        match &mutant.place {
            Some(place) => Some(Edit::new(place.clone(), {
                let (place, new) = (place.clone(), mutant.new.clone());
                move |inner| format!("⟦{number}|{new}|{}⟧", inner(place.start, place.end))
            })),
            None => parsed.edit(mutant.at, &new, is_on(number)),
        }
    });
    edits.extend(generated.filter(|edit| !fixed.iter().any(|range| edit.cuts(range))));
    edits.sort_by_key(|edit| (edit.range.start, std::cmp::Reverse(edit.range.end)));
    Ok(edited(source, 0..source.len(), &edits))
}

/// The mutants of the scripts and those that `cargo mutants` lists, numbered behind the bugs.
pub(super) fn generated(listed: &str) -> io::Result<Vec<Mutant>> {
    let root = PathBuf::from(cargo::workspace_root());
    let mut found = Vec::new();
    let mut add =
        |file: &str, line: usize, at: usize, what: &str, place: Option<(Range<usize>, String)>| {
            let number = BUGS.len() + 1 + found.len();
            let (place, new) = place.unzip();
            let new = new.unwrap_or_default();
            found.push(Mutant {
                number,
                file: file.to_owned(),
                line,
                at,
                what: what.to_owned(),
                place,
                new,
            });
        };
    let mut source = (String::new(), String::new());
    // A file of two modules is listed twice.
    let listed: BTreeSet<&str> = listed.lines().collect();
    for line in listed {
        let mut parts = line.splitn(4, ':');
        let (Some(file), Some(line), Some(column), Some(what)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (Ok(line), Ok(column)) = (line.parse(), column.parse()) else { continue };
        if source.0 != file {
            source = (file.to_owned(), fs::read_to_string(root.join(file))?);
        }
        let at = offset(&source.1, line, column);
        add(file, line, at, what.trim(), None);
    }
    let scripts = "lock-runtime/src/store/redis/scripts";
    let mut files: Vec<_> =
        fs::read_dir(root.join(scripts))?.flatten().map(|entry| entry.file_name()).collect();
    files.sort();
    for name in files.iter().filter_map(|name| name.to_str()).filter(|name| name.ends_with(".lua"))
    {
        let file = format!("{scripts}/{name}");
        let source = fs::read_to_string(root.join(&file))?;
        for (place, new) in lua::mutants(&source) {
            let line = source[..place.start].matches('\n').count() + 1;
            let old = &source[place.clone()];
            let what = if new.is_empty() {
                format!("delete `{old}`")
            } else {
                format!("replace `{old}` with `{new}`")
            };
            let shown = source.lines().nth(line - 1).unwrap_or_default().trim();
            add(&file, line, place.start, &format!("{what} in `{shown}`"), Some((place, new)));
        }
    }
    Ok(found)
}

/// The place in a text of a line and a column, both counted from one.
pub(super) fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = &text[start..];
    start + rest.char_indices().nth(column - 1).map_or(rest.len(), |(at, _)| at)
}

/// Copies all sources to `tree` and plants the mutants. Leaves files alone that are as they should be, so that cargo builds
/// only what has changed. Returns the numbers of the mutants that have a place, and a hash of all files with one.
pub(super) fn plant(tree: &Path, mutants: &[&Mutant]) -> io::Result<(BTreeSet<usize>, u64)> {
    let root = PathBuf::from(cargo::workspace_root());
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = list.current_dir(&root).output()?;
    if !listed.status.success() {
        return Err(io::Error::other("`git ls-files` failed"));
    }
    let (mut kept, mut numbers, mut hasher) =
        (BTreeSet::new(), BTreeSet::new(), DefaultHasher::new());
    let mut write = |name: &str, text: &[u8]| {
        let file = tree.join(name);
        if fs::read(&file).is_ok_and(|present| present == text) {
            kept.insert(file);
            return Ok(());
        }
        fs::create_dir_all(file.parent().unwrap_or(&file))?;
        fs::write(&file, text)?;
        kept.insert(file);
        io::Result::Ok(())
    };
    for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let Ok(mut text) = fs::read(root.join(name)) else { continue };
        let is_product = name.ends_with(".rs") || name.ends_with(".lua");
        if let (true, Ok(source)) = (is_product, str::from_utf8(&text)) {
            let new = planted(name, source, mutants).map_err(io::Error::other)?;
            let before = numbers.len();
            numbers.extend(switches(&new).map(|(_, number)| number));
            if numbers.len() > before {
                new.hash(&mut hasher);
            }
            text = new.into_bytes();
        }
        write(name, &text)?;
    }
    write("lock-runtime/src/mutants.rs", include_bytes!("switch.rs"))?;
    remove_others(tree, &kept)?;
    Ok((numbers, hasher.finish()))
}

/// Where a planted text has a switch, and of which mutant.
pub(super) fn switches(planted: &str) -> impl Iterator<Item = (usize, usize)> {
    let numbers = |(at, mark): (usize, &str)| {
        let rest = &planted[at + mark.len()..];
        let number = rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()?;
        Some((at, number))
    };
    let marks = planted.match_indices("mutants::is_on(").chain(planted.match_indices('⟦'));
    marks.filter_map(numbers)
}

/// Removes files that the sources no longer have.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
