//! Key templates: text with `{placeholders}`, in which `{{` and `}}` are braces.

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Text between placeholders, its braces no longer doubled.
    Text(String),
    /// The text between the braces of a placeholder.
    Placeholder(&'a str),
}

/// An error in the braces: one that belongs to no placeholder and is not doubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BraceProblem {
    /// A `{` is never closed.
    Unclosed,
    /// A `}` closes nothing.
    Unopened,
}

/// Parses a template.
///
/// # Errors
///
/// The first [`BraceProblem`].
///
/// # Examples
///
/// ```
/// use lock_syntax::template::{BraceProblem, Segment, parse};
///
/// let text = |text: &str| Segment::Text(text.to_owned());
/// assert_eq!(parse("x:{{{id}}}"), Ok(vec![text("x:{"), Segment::Placeholder("id"), text("}")]));
/// assert_eq!(parse("{id"), Err(BraceProblem::Unclosed));
/// ```
pub fn parse(template: &str) -> Result<Vec<Segment<'_>>, BraceProblem> {
    let mut segments = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let (brace, tail) = rest[at..].split_at(1);
        rest = if let Some(tail) = tail.strip_prefix(brace) {
            text.push_str(brace);
            tail
        } else if brace == "}" {
            return Err(BraceProblem::Unopened);
        } else {
            let (placeholder, tail) = tail
                .split_once('}')
                .filter(|(placeholder, _)| !placeholder.contains('{'))
                .ok_or(BraceProblem::Unclosed)?;
            if !text.is_empty() {
                segments.push(Segment::Text(std::mem::take(&mut text)));
            }
            segments.push(Segment::Placeholder(placeholder));
            tail
        };
    }
    text.push_str(rest);
    if !text.is_empty() {
        segments.push(Segment::Text(text));
    }
    Ok(segments)
}

/// A part of a template for [`unseparated`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a, V> {
    /// Text.
    Text(&'a str),
    /// A value that is escaped.
    Escaped(V),
    /// An unescaped value: the author must know whether it can run together with its neighbours.
    Raw,
}

/// Returns the first two neighbouring values that could run together: they need text between them that an
/// escaped value never contains; otherwise `("ab", "c")` and `("a", "bc")` would be one key.
///
/// # Examples
///
/// ```
/// use lock_syntax::template::Part::{Escaped, Text};
/// use lock_syntax::template::unseparated;
///
/// assert_eq!(unseparated([Escaped("a"), Text("-"), Escaped("b")]), Some(("a", "b")));
/// assert_eq!(unseparated([Escaped("a"), Text(":"), Escaped("b")]), None);
/// ```
// S-3.
pub fn unseparated<'a, V: Copy>(parts: impl IntoIterator<Item = Part<'a, V>>) -> Option<(V, V)> {
    let mut before = None;
    let mut separated = false;
    for part in parts {
        match part {
            // `%` is escaped too, but starts every escape itself.
            Part::Text(text) => {
                separated |= text.contains([':', '{', '}', '*', '?', '[', ']', '\\'])
                    || text.contains(char::is_whitespace);
            }
            Part::Raw => before = None,
            Part::Escaped(value) => {
                if let Some(before) = before.filter(|_| !separated) {
                    return Some((before, value));
                }
                (before, separated) = (Some(value), false);
            }
        }
    }
    None
}
