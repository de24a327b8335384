//! A copy of the sources with all mutants, each behind a switch.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::{lua, root, rust};

/// The folders of the score. A file counts for the first that it is in.
pub(super) const FOLDERS: [&str; 14] = [
    "lock-runtime/src/acquire/",
    "lock-runtime/src/queue/",
    "lock-runtime/src/lease/",
    "lock-runtime/src/owned_hold/",
    "lock-runtime/src/guard/",
    "lock-runtime/src/scope.rs",
    "lock-runtime/src/store/redis/scripts/",
    "lock-runtime/src/store/redis/",
    "lock-runtime/src/store/compose/",
    "lock-runtime/src/private/",
    "lock-runtime/src/blocking.rs",
    "lock-runtime/src/own_runtime/",
    "lock-tower/src/",
    BUGS,
];

/// In place of a folder: the bugs that this library once had.
pub(super) const BUGS: &str = "bugs";
const LIST_OF_BUGS: &str = include_str!("bugs.txt");

/// Asks whether a mutant is switched on.
const SWITCH: &str = "mutants::is_on(";

/// How a change is switched on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// Takes the place of an expression.
    Value,
    /// Takes the place of a statement.
    Statement,
    /// Stands at the beginning of a function, and returns from it.
    Return,
    /// Stands behind a pattern that then matches nothing.
    Arm,
    /// Takes the place of a part of a script.
    Lua,
    /// Takes the place of a text, and has the switch inside.
    Bug,
}

/// A change of a text.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) range: Range<usize>,
    pub(super) form: Form,
    pub(super) new: String,
    pub(super) what: String,
}

/// A change of the product that some test should notice.
#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) number: usize,
    pub(super) file: String,
    pub(super) folder: &'static str,
    /// Where it is and what it changes.
    pub(super) name: String,
    change: Change,
}

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
        "let source = [\"local call = redis.call\\n\", &source].concat();",
        "let source = crate::mutants::in_script([\"local call = redis.call\\n\", &source].concat());",
    ),
    (
        SCRIPTS,
        "    fn text(&self, publish: Publish) -> &Text {",
        "    pub(crate) fn runs(&self) {\n        crate::mutants::runs(&self.everywhere.source);\n    }\n\n    fn text(&self, publish: Publish) -> &Text {",
    ),
    (
        SCRIPTS,
        "let text = self.text(publish);",
        "self.runs();\n        let text = self.text(publish);",
    ),
    (SCRIPTS, "let mut call = Packed::new(", "self.runs();\n        let mut call = Packed::new("),
    (
        "lock-runtime/src/store/redis/requests/combine/queue.rs",
        "call.arg(first.part.number)",
        "first.part.script.runs();\n            call.arg(first.part.number)",
    ),
];
const SCRIPTS: &str = "lock-runtime/src/store/redis/scripts/mod.rs";

/// The bugs and all generated mutants, numbered from one.
///
/// # Errors
///
/// When a file cannot be read, or the lines of a bug are not there exactly once: the sources have changed, and the bug has to
/// follow.
pub(super) fn mutants(files: &BTreeMap<String, String>) -> io::Result<Vec<Mutant>> {
    let mut found = Vec::new();
    for bug in LIST_OF_BUGS.split("\n* ").skip(1) {
        let lines = |mark| bug.lines().filter_map(move |line| line.strip_prefix(mark)).collect();
        let (file, find): (Vec<&str>, Vec<&str>) = (lines("@ "), lines("-"));
        let plant: Vec<&str> = lines("+");
        let (name, file) = (bug.lines().next().unwrap_or_default(), file.concat());
        let range = place(files, &file, &find.join("\n"))?;
        let change = Change { range, form: Form::Bug, new: plant.join("\n"), what: String::new() };
        found.push((format!("{BUGS}: {name}"), BUGS, file, change));
    }
    for (file, source) in files {
        let is_test = file.contains("/tests") || file.ends_with("fuzz.rs");
        let Some(folder) = FOLDERS.into_iter().find(|folder| file.starts_with(folder)) else {
            continue;
        };
        let changes = match file.rsplit_once('.') {
            Some((_, "rs")) if !is_test => rust::changes(source),
            Some((_, "lua")) => lua::changes(source),
            _ => Vec::new(),
        };
        for change in changes {
            let line = source[..change.range.start].matches('\n').count() + 1;
            let what = change.what.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push((format!("{file}:{line}: {what}"), folder, file.clone(), change));
        }
    }
    // What a line has several times is told apart by its number there.
    let mut times = BTreeMap::new();
    for (name, ..) in &mut found {
        let time = times.entry(name.clone()).or_insert(0);
        *time += 1;
        if *time > 1 {
            name.push_str(&format!(" ({time})"));
        }
    }
    let numbered = found.into_iter().zip(1..);
    Ok(numbered
        .map(|((name, folder, file, change), number)| Mutant { number, file, folder, name, change })
        .collect())
}

fn place(files: &BTreeMap<String, String>, file: &str, find: &str) -> io::Result<Range<usize>> {
    let mut places = files.get(file).into_iter().flat_map(|source| source.match_indices(find));
    match (places.next(), places.next()) {
        (Some((at, _)), None) => Ok(at..at + find.len()),
        _ => Err(io::Error::other(format!("{file} does not have `{find}` exactly once"))),
    }
}

/// The text of each file below the workspace that is one.
///
/// # Errors
///
/// When git does not list them.
pub(super) fn sources() -> io::Result<BTreeMap<String, String>> {
    let root = root();
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = list.current_dir(&root).output()?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let read = |name: &str| Some((name.to_owned(), fs::read_to_string(root.join(name)).ok()?));
    Ok(names.split_terminator('\0').filter_map(read).collect())
}

/// A copy of the sources.
pub(super) struct Planted {
    /// The mutants that have a switch there.
    pub(super) numbers: BTreeSet<usize>,
    /// Hashes of the folders of the score, and of all else.
    pub(super) product: u64,
    pub(super) others: u64,
}

/// Writes a copy of the sources in which the mutants have their switches. Leaves files alone that are as they should be, so that
/// cargo builds only what has changed.
///
/// # Errors
///
/// When a file cannot be written, or the sources have changed so that no switch works.
pub(super) fn plant(
    tree: &Path,
    files: &BTreeMap<String, String>,
    mutants: &[&Mutant],
) -> io::Result<Planted> {
    let (mut kept, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    let (mut product, mut others) = (DefaultHasher::new(), DefaultHasher::new());
    let switch =
        ("lock-runtime/src/mutants.rs".to_owned(), include_str!("planted/mutants.rs").to_owned());
    for (name, source) in files.iter().chain([(&switch.0, &switch.1)]) {
        let text = planted(files, name, source, mutants)?;
        let is_product = FOLDERS.iter().any(|folder| name.starts_with(folder));
        // The text of the switch itself has none.
        numbers.extend(switches(&text).map(|(_, number)| number));
        (name, &text).hash(if is_product { &mut product } else { &mut others });
        // Tests read the scripts as they are; the library takes those with the marks.
        let is_script = name.ends_with(".lua");
        if is_script {
            write(source, tree.join(name), &mut kept)?;
        }
        let name = if is_script { name.replace(".lua", ".mutants") } else { name.clone() };
        write(&text, tree.join(name), &mut kept)?;
    }
    remove_others(tree, &kept)?;
    Ok(Planted { numbers, product: product.finish(), others: others.finish() })
}

/// Writes a file, unless it is as it should be.
fn write(text: &str, file: PathBuf, kept: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if fs::read(&file).ok().as_deref() != Some(text.as_bytes()) {
        fs::create_dir_all(file.parent().unwrap_or(&file))?;
        fs::write(&file, text)?;
    }
    kept.insert(file);
    Ok(())
}

/// Where a text has a switch, and of which mutant.
fn switches(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let marks = text.match_indices(SWITCH).chain(text.match_indices('⟦'));
    marks.filter_map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        Some((at, rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()?))
    })
}

/// The mutants that an error of the compiler comes from: the innermost around its place. If there is none, all that leave out a
/// statement in the lines that it tells of: one of them lets the others meet. Or else the last one before.
pub(super) fn blamed(text: &str, (line, column): (usize, usize), told: &[usize]) -> Vec<usize> {
    let start =
        |line: usize| text.split_inclusive('\n').take(line - 1).map(str::len).sum::<usize>();
    let at = start(line);
    let at = at + text[at..].char_indices().nth(column - 1).map_or(0, |(at, _)| at);
    let marks = |number: usize| {
        let (inner, outer) = (format!("/*{number}*/"), format!("/*end of {number}*/"));
        (text.find(&inner), text.find(&outer))
    };
    let switches: Vec<_> = switches(text)
        .map(|(at, number)| (at - "lock_runtime::".len(), number, marks(number)))
        .collect();
    let before = || switches.iter().rev().filter(|(start, ..)| *start <= at);
    let inside = before().find(|(.., (end, _))| end.is_some_and(|end| at < end));
    let of = |found: &(usize, usize, _)| found.1;
    if let Some(found) = inside {
        return vec![of(found)];
    }
    let lines = start(told.iter().min().copied().unwrap_or(line))
        ..start(told.iter().max().copied().unwrap_or(line) + 1);
    let leaves_out = |number: usize| text.contains(&format!("is_on({number}) {{}}"));
    let between =
        switches.iter().filter(|(place, number, _)| lines.contains(place) && leaves_out(*number));
    let between: Vec<usize> = between.map(of).collect();
    match between.is_empty() {
        false => between,
        true => before().find(|(.., (end, _))| end.is_some()).map(of).into_iter().collect(),
    }
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

/// The text of a file with the wiring and the mutants that belong there.
fn planted(
    files: &BTreeMap<String, String>,
    file: &str,
    source: &str,
    mutants: &[&Mutant],
) -> io::Result<String> {
    let outer = if file.starts_with("lock-tower/") { "lock_runtime" } else { "crate" };
    let is_on = |number: usize| match file.ends_with(".lua") {
        true => format!("⟦{number}|true|false⟧"),
        false => format!("{outer}::{SWITCH}{number})"),
    };
    let mut edits = Vec::new();
    for (_, find, plant) in WIRING.iter().filter(|(its, ..)| *its == file) {
        edits.push((place(files, file, find)?, Form::Bug, *plant, String::new(), 0));
    }
    for Mutant { number, change, .. } in mutants.iter().filter(|mutant| mutant.file == file) {
        let Change { range, form, new, .. } = change;
        edits.push((range.clone(), *form, new, is_on(*number), *number));
    }
    // A change that would cut the text of a bug has no place. The outer come before what is inside.
    let of_bug = |edit: &&Edit<'_>| edit.1 == Form::Bug;
    let bugs: Vec<_> = edits.iter().filter(of_bug).map(|edit| edit.0.clone()).collect();
    let cuts = |one: &Range<usize>, other: &Range<usize>| {
        one.start < other.start && other.start < one.end && one.end < other.end
            || other.start < one.start && one.start < other.end && other.end < one.end
    };
    edits.retain(|(range, ..)| !bugs.iter().any(|bug| cuts(range, bug)));
    edits.sort_by_key(|(range, form, ..)| (range.start, Reverse(range.end), *form != Form::Bug));
    let text = edited(source, 0..source.len(), &edits);
    Ok(if file == SCRIPTS { text.replace(".lua\"", ".mutants\"") } else { text })
}

type Edit<'a> = (Range<usize>, Form, &'a str, String, usize);

/// A part of a text with the edits inside.
fn edited(source: &str, part: Range<usize>, edits: &[Edit<'_>]) -> String {
    let (mut text, mut at) = (String::new(), part.start);
    for (n, (range, form, new, is_on, number)) in edits.iter().enumerate() {
        if range.start < at || range.end > part.end {
            continue;
        }
        text.push_str(&source[at..range.start]);
        let inner = || edited(source, range.clone(), &edits[n + 1..]);
        text.push_str(&match form {
            Form::Value => {
                let inner = inner();
                format!(
                    "(if {is_on} {{ {new} }}/*{number}*/ else {{ {inner} }})/*end of {number}*/"
                )
            }
            Form::Statement => {
                format!("if {is_on} {{}}/*{number}*/ else {{ {} }}/*end of {number}*/", inner())
            }
            Form::Return => format!(" if {is_on} {{ return {new}; }}/*{number}*/"),
            Form::Arm => format!(" if !{is_on}/*{number}*/"),
            Form::Lua => format!("⟦{number}|{new}|{}⟧", inner()),
            Form::Bug => new.replace("PLANTED", is_on),
        });
        at = range.end;
    }
    text + &source[at..part.end]
}
