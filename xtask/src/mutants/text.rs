//! Source text as tokens, so far as mutants need it.

use std::ops::Range;

/// An operator or a word of a text, by its place there.
pub(super) type Token = Range<usize>;

const LONG: [&str; 25] = [
    "<<=", ">>=", "..=", "...", "::", "->", "=>", "==", "!=", "~=", "<=", ">=", "&&", "||", "+=",
    "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<", ">>", "..",
];

/// The text with spaces in place of comments, and `_` in place of what strings have inside, byte for byte.
pub(super) fn masked(source: &str, is_lua: bool) -> String {
    let mut out = source.as_bytes().to_vec();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let before =
            source[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        let until = |end: &str| rest.find(end).map_or(rest.len(), |found| found + end.len());
        let (length, with) = if is_lua && rest.starts_with("--[[") {
            (until("]]"), b' ')
        } else if rest.starts_with(if is_lua { "--" } else { "//" }) {
            (until("\n"), b' ')
        } else if !is_lua && rest.starts_with("/*") {
            (until("*/"), b' ')
        } else if !is_lua && !before && rest.starts_with('r') && rest[1 + hashes..].starts_with('"')
        {
            let end = ["\"", &"#".repeat(hashes)].concat();
            let from = 2 + hashes;
            (rest[from..].find(&end).map_or(rest.len(), |found| from + found + end.len()), b'_')
        } else if rest.starts_with('"') || is_lua && rest.starts_with('\'') {
            (quoted(rest, &rest[..1]), b'_')
        } else if rest.starts_with("'\\")
            || rest.chars().nth(2) == Some('\'') && rest.starts_with('\'')
        {
            (quoted(rest, "'"), b'_')
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        out[at..at + length]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = with);
        at += length;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The length of a string with its quotes.
fn quoted(text: &str, quote: &str) -> usize {
    let mut at = 1;
    while let Some(found) = text[at..].find([quote.chars().next().unwrap_or('"'), '\\']) {
        at += found + 1;
        if text[at - 1..].starts_with('\\') {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        } else {
            return at;
        }
    }
    text.len()
}

pub(super) fn tokens(masked: &str) -> Vec<Token> {
    let (mut found, mut at) = (Vec::new(), 0);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(first) = masked[at..].chars().next() {
        let rest = &masked[at..];
        let length = match LONG.iter().find(|long| rest.starts_with(**long)) {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            Some(long) => long.len(),
            None => first.len_utf8(),
        };
        if !first.is_whitespace() {
            found.push(at..at + length);
        }
        at += length;
    }
    found
}

/// The index of the token that closes the bracket at `open`; as well backwards, from a closing bracket.
pub(super) fn partner(masked: &str, tokens: &[Token], open: usize) -> Option<usize> {
    let forward = "([{".contains(&masked[tokens[open].clone()]);
    let mut depth = 0;
    let mut at = open;
    loop {
        match &masked[tokens.get(at)?.clone()] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        at = if forward { at + 1 } else { at.checked_sub(1)? };
    }
}

/// True if a binary operator can follow this token.
pub(super) fn ends_operand(token: &str) -> bool {
    const KEYWORDS: [&str; 14] = [
        "return", "if", "while", "match", "in", "let", "else", "mut", "move", "break", "and", "or",
        "not", "then",
    ];
    let ends = |c: char| c.is_alphanumeric() || "_)]}?".contains(c);
    token.chars().next_back().is_some_and(ends) && !KEYWORDS.contains(&token)
}
