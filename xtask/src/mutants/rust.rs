//! Plants what `cargo mutants` lists.

use super::plant::Edit;
use super::text::{Token, ends_operand, masked, partner, tokens};

/// How tightly a binary operator binds.
fn level(operator: &str) -> Option<u8> {
    Some(match operator {
        "*" | "/" | "%" => 9,
        "+" | "-" => 8,
        "<<" | ">>" => 7,
        "&" => 6,
        "^" => 5,
        "|" => 4,
        "==" | "!=" | "<" | ">" | "<=" | ">=" => 3,
        "&&" => 2,
        "||" => 1,
        ".." | "..=" => 0,
        _ => return None,
    })
}

fn is_assignment(operator: &str) -> bool {
    operator == "=" || operator.len() > 1 && operator.ends_with('=') && level(operator).is_none()
}

/// A file, taken apart once for all its mutants.
pub(super) struct Source {
    masked: String,
    tokens: Vec<Token>,
}

impl Source {
    pub(super) fn new(source: &str) -> Self {
        let masked = masked(source, false);
        Self { tokens: tokens(&masked), masked }
    }

    fn token(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &self.masked[token.clone()])
    }

    /// The change that `cargo mutants` describes by `what` at `at`, switched by `is_on`; `None` if it cannot be switched.
    pub(super) fn edit(&self, at: usize, what: &str, is_on: String) -> Option<Edit> {
        let first = self.tokens.partition_point(|token| token.start < at);
        if what.starts_with("delete match arm") {
            return self.guard(first, move |guard| match guard {
                Some(guard) if guard.contains("let ") => format!("!{is_on} && {guard}"),
                Some(guard) => format!("!{is_on} && ({guard})"),
                None => format!("if !{is_on} "),
            });
        }
        if what.starts_with("replace match guard let ") {
            return None;
        }
        if what.starts_with("replace match guard") {
            let (_, value) = what.rsplit_once(" with ")?;
            let value = value.split_whitespace().next()?.to_owned();
            let first = first.checked_sub(usize::from(self.token(first) != "if"))?;
            return self.guard(first, move |guard| {
                format!("(if {is_on} {{ {value} }} else {{ {} }})", guard.unwrap_or_default())
            });
        }
        if what.starts_with("delete ! ") || what.starts_with("delete - ") {
            let end = self.tokens[self.operand_end(first + 1, 11)? - 1].end;
            let after = self.tokens[first].end;
            let write = move |inner: &dyn Fn(usize, usize) -> String| {
                format!("(if {is_on} {{ {}\n}} else {{ {}\n}})", inner(after, end), inner(at, end))
            };
            return Some(Edit::new(at..end, write));
        }
        let (old, new) = what.strip_prefix("replace ")?.split_once(" with ")?;
        if level(old).is_some() || is_assignment(old) {
            let new = new.split_whitespace().next()?.to_owned();
            return self.operator(first, new, is_on).filter(|_| self.token(first) == old);
        }
        let new = new.to_owned();
        let body = self.masked[..at].trim_end().len();
        let body = if self.masked[at..].starts_with('{') && !self.masked[..body].ends_with('{') {
            at + 1
        } else {
            body
        };
        let write =
            move |_: &dyn Fn(usize, usize) -> String| format!(" if {is_on} {{ return {new}; }}");
        self.masked[..body].ends_with('{').then(|| Edit::new(body..body, write))
    }

    /// The guard of a match arm, or where it would be.
    fn guard(
        &self,
        from: usize,
        write: impl Fn(Option<String>) -> String + 'static,
    ) -> Option<Edit> {
        let (mut at, mut start) = (from, None);
        while self.token(at) != "=>" {
            match self.token(at) {
                "(" | "[" | "{" => at = partner(&self.masked, &self.tokens, at)?,
                "if" => start = Some(self.tokens[at].end + 1),
                "" => return None,
                _ => {}
            }
            at += 1;
        }
        let end = self.tokens[at].start;
        let range = start.unwrap_or(end)..end;
        Some(Edit::new(range.clone(), move |inner| {
            let guard = start.map(|start| inner(start, end));
            let space = if guard.is_some() { " " } else { "" };
            [&write(guard), space].concat()
        }))
    }

    fn operator(&self, at: usize, new: String, is_on: String) -> Option<Edit> {
        let mine = if is_assignment(self.token(at)) { 0 } else { level(self.token(at))? };
        let mut first = at;
        while let Some(before) = first.checked_sub(1) {
            let (token, is_binary) =
                (self.token(before), before > 0 && ends_operand(self.token(before - 1)));
            let looser = level(token).is_some_and(|its| its < mine);
            first = match token {
                ")" | "]" => partner(&self.masked, &self.tokens, before)?,
                "(" | "[" | "{" | "}" | ";" | "," | ":" | "=>" | "|" => break,
                _ if is_assignment(token) || looser && (is_binary || token == "||") => break,
                _ if self.masked[self.tokens[before].clone()].starts_with(char::is_alphabetic)
                    && !ends_operand(token) =>
                {
                    break;
                }
                _ => before,
            };
        }
        let last = self.operand_end(at + 1, mine)?;
        if first == at {
            return None;
        }
        let (start, end) = (self.tokens[first].start, self.tokens[last - 1].end);
        let operator = self.tokens[at].clone();
        Some(Edit::new(start..end, move |inner| {
            let (left, right) = (inner(start, operator.start), inner(operator.end, end));
            let (left, right) = (left.trim_end(), right.trim_start());
            format!(
                "(if {is_on} {{ ({left}\n) {new} ({right}\n) }} else {{ {}\n}})",
                inner(start, end)
            )
        }))
    }

    /// The index of the token behind an operand that starts at `at`, of an operator that binds so tightly.
    fn operand_end(&self, mut at: usize, mine: u8) -> Option<usize> {
        let mut is_prefix = true;
        loop {
            match self.token(at) {
                "!" | "-" | "*" | "&" | "&&" | "mut" if is_prefix => {}
                "if" | "match" | "let" | "|" | "||" | "move" | "unsafe" if is_prefix => {
                    return None;
                }
                "(" | "[" => (at, is_prefix) = (partner(&self.masked, &self.tokens, at)?, false),
                ")" | "]" | "}" | "{" | ";" | "," | ":" | "=>" | "else" => return Some(at),
                "" => return None,
                token => match level(token) {
                    Some(its) if its <= mine => return Some(at),
                    its => is_prefix = its.is_some(),
                },
            }
            at += 1;
        }
    }
}
