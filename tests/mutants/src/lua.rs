//! Mutants of Lua: other operators, other numbers, and lines without effect.

use std::ops::Range;

use crate::plant::{Change, Form};

const OPERATORS: [(&str, &str); 11] = [
    ("==", "~="),
    ("~=", "=="),
    ("<=", "<"),
    (">=", ">"),
    ("<", "<="),
    (">", ">="),
    ("+", "-"),
    ("-", "+"),
    ("and", "or"),
    ("or", "and"),
    ("not", ""),
];

/// Words that a number can follow.
const WORDS: [&str; 4] = ["and", "or", "not", "return"];

/// The changes of a script. Lua compiles each.
pub(super) fn changes(source: &str) -> Vec<Change> {
    let tokens = tokens(source);
    let text = |at: usize| tokens.get(at).map_or("", |token| &source[token.clone()]);
    let mut found = statements(source, &tokens);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", text);
        let mut replace = |new: String| {
            let line = source[..token.start].rfind('\n').map_or(0, |at| at + 1);
            let line = source[line..].lines().next().unwrap_or_default().trim();
            let what = format!("replace `{}` by `{new}` in `{line}`", text(at));
            found.push(Change { range: token.clone(), form: Form::Lua, new, what });
        };
        // A sign is no operator, and what is joined to a text is no number.
        let is_sum = before.ends_with(|c: char| c.is_alphanumeric() || ")]".contains(c));
        let is_sum = is_sum && !WORDS.contains(&before) && text(at + 1) != "..";
        match OPERATORS.iter().find(|(operator, _)| *operator == text(at)) {
            Some(("+" | "-", _)) if !is_sum => {}
            Some((_, other)) => replace((*other).to_owned()),
            // The arguments of a batch are found by their numbers.
            None if before == "[" && at > 1 && text(at - 2) == "ARGV" => {}
            None => {
                if let Ok(number) = text(at).parse::<u64>() {
                    replace((number + 1).to_string());
                }
            }
        }
    }
    found
}

/// The words, strings and operators, without comments.
fn tokens(source: &str) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let until =
            |end: &str| rest[1..].find(end).map_or(rest.len(), |found| found + 1 + end.len());
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            '-' if rest.starts_with("--[[") => until("]]"),
            '-' if rest.starts_with("--") => until("\n"),
            '\'' | '"' => until(&rest[..1]),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => ["==", "~=", "<=", ">=", ".."]
                .iter()
                .find(|long| rest.starts_with(**long))
                .map_or(first.len_utf8(), |long| long.len()),
        };
        if !first.is_whitespace() && !rest.starts_with("--") {
            found.push(at..at + length);
        }
        at += length;
    }
    found
}

/// Deletes each line that is a statement.
fn statements(source: &str, tokens: &[Range<usize>]) -> Vec<Change> {
    const GO_ON: [&str; 13] =
        ["and", "or", "not", "..", "+", "-", "(", "{", ",", "=", "==", ")", "}"];
    let mut found = Vec::new();
    let line_of = |token: &Range<usize>| source[..token.start].matches('\n').count();
    let lines: Vec<&[Range<usize>]> =
        tokens.chunk_by(|one, two| line_of(one) == line_of(two)).collect();
    for (n, line) in lines.iter().enumerate() {
        let words = |line: &[Range<usize>]| -> Vec<&str> {
            line.iter().map(|token| &source[token.clone()]).collect()
        };
        let its = words(line);
        let count = |set: &[&str]| its.iter().filter(|word| set.contains(*word)).count();
        let goes_on = |word: Option<&&str>| word.is_some_and(|word| GO_ON.contains(word));
        let before = n.checked_sub(1).map(|n| words(lines[n])).unwrap_or_default();
        let after = lines.get(n + 1).map(|line| words(line)).unwrap_or_default();
        let is_whole = count(&["(", "[", "{"]) == count(&[")", "]", "}"])
            && !its.last().is_some_and(|word| GO_ON[..11].contains(word))
            && !before.last().is_some_and(|word| GO_ON[..11].contains(word))
            && !goes_on(after.first());
        let is_effect = ["call", "redis", "return", "break"].contains(&its[0])
            || its.contains(&"=") && !["local", "for", "if", "elseif", "while"].contains(&its[0]);
        if is_whole && is_effect && !its.contains(&"function") {
            let range = line[0].start..line[line.len() - 1].end;
            let what = format!("delete `{}`", &source[range.clone()]);
            found.push(Change { range, form: Form::Lua, new: String::new(), what });
        }
    }
    found
}
