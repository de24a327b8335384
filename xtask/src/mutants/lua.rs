//! Mutants of Lua: other operators, other numbers, and lines without effect.

use std::ops::Range;

use super::text::{ends_operand, masked, tokens};

const OPERATORS: [(&str, &str); 11] = [
    ("==", "~="),
    ("~=", "=="),
    ("<", "<="),
    ("<=", "<"),
    (">", ">="),
    (">=", ">"),
    ("+", "-"),
    ("-", "+"),
    ("and", "or"),
    ("or", "and"),
    ("not", ""),
];

/// Places of a script, and what takes theirs. Each makes a script that Lua compiles.
pub(super) fn mutants(source: &str) -> Vec<(Range<usize>, String)> {
    let masked = masked(source, true);
    let tokens = tokens(&masked);
    let text = |at: usize| tokens.get(at).map_or("", |token| &masked[token.clone()]);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", text);
        let other = OPERATORS.iter().find(|(operator, _)| *operator == text(at));
        if let Some((operator, other)) =
            other.filter(|(operator, _)| *operator != "-" || ends_operand(before))
        {
            let is_sum = *operator == "+" && text(at + 1) == "..";
            found.extend((!is_sum).then(|| (token.clone(), (*other).to_owned())));
        }
        // The arguments of a batch are found by their numbers.
        let is_argument = before == "[" && at > 1 && text(at - 2) == "ARGV";
        if let (Ok(number), false) = (text(at).parse::<u64>(), is_argument || before == ".") {
            found.push((token.clone(), (number + 1).to_string()));
        }
    }
    found.extend(statements(&masked).map(|line| (line, String::new())));
    found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    found
}

/// The lines that are a statement each, which can be left out.
fn statements(masked: &str) -> impl Iterator<Item = Range<usize>> {
    const GOES_ON: [&str; 12] =
        ["and", "or", "not", "..", "+", "-", "(", "{", ",", "=", "==", "return"];
    const DO: [&str; 4] = ["call(", "redis.", "return ", "break"];
    let mut at = 0;
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for line in masked.split_inclusive('\n') {
        lines.extend(
            (!line.trim().is_empty())
                .then(|| (at + line.len() - line.trim_start().len(), line.trim())),
        );
        at += line.len();
    }
    let goes_on = |line: &str| GOES_ON.iter().any(|end| line.ends_with(end));
    let is_one = move |n: usize| {
        let line = lines[n].1;
        let count = |set: &str| line.matches(|c| set.contains(c)).count();
        let assigns = line.split_once(" = ").is_some_and(|(names, _)| {
            names.chars().all(|c| c.is_alphanumeric() || "_., []#+".contains(c))
                && !names.starts_with("local ")
        });
        let starts = DO.iter().any(|word| line.starts_with(word)) || assigns;
        let before = n.checked_sub(1).map_or("", |n| lines[n].1);
        let after = lines.get(n + 1).map_or("", |line| line.1);
        let continues = ["and ", "or ", ".. ", "+ ", "- ", ")", "}"]
            .iter()
            .any(|start| after.starts_with(start));
        let whole =
            count("([{") == count(")]}") && !goes_on(line) && !continues && !goes_on(before);
        (starts && whole && !line.contains("function")).then(|| lines[n].0..lines[n].0 + line.len())
    };
    (0..masked.lines().filter(|line| !line.trim().is_empty()).count()).filter_map(is_one)
}
