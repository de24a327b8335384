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

/// A part of a template as it was written, without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text between placeholders, or one brace that was doubled. Several can follow each other.
    Text(&'a str),
    /// The text between the braces of a placeholder.
    Placeholder(&'a str),
}

/// Returns the parts of a template one by one, and allocates nothing. After an error there are no more.
///
/// # Examples
///
/// ```
/// use lock_syntax::template::{Piece, pieces};
///
/// let shape = pieces("order:{id}").map(|piece| match piece {
///     Ok(Piece::Text(text)) => text,
///     Ok(Piece::Placeholder(_)) => "{}",
///     Err(_) => "?",
/// });
/// assert_eq!(shape.collect::<String>(), "order:{}");
/// ```
pub fn pieces(template: &str) -> impl Iterator<Item = Result<Piece<'_>, BraceProblem>> + Clone {
    let mut rest = template;
    std::iter::from_fn(move || {
        let (piece, tail) = match next_piece(rest)? {
            Ok((piece, tail)) => (Ok(piece), tail),
            Err(problem) => (Err(problem), ""),
        };
        rest = tail;
        Some(piece)
    })
}

/// Returns the first part and what follows it; `None` at the end.
fn next_piece(rest: &str) -> Option<Result<(Piece<'_>, &str), BraceProblem>> {
    let at = rest.find(['{', '}']).unwrap_or(rest.len());
    if at > 0 {
        let (text, tail) = rest.split_at(at);
        return Some(Ok((Piece::Text(text), tail)));
    }
    let (brace, tail) = rest.split_at_checked(1)?;
    if let Some(tail) = tail.strip_prefix(brace) {
        return Some(Ok((Piece::Text(brace), tail)));
    }
    if brace == "}" {
        return Some(Err(BraceProblem::Unopened));
    }
    let closed = tail.split_once('}').filter(|(placeholder, _)| !placeholder.contains('{'));
    let part = |(placeholder, tail)| (Piece::Placeholder(placeholder), tail);
    Some(closed.map(part).ok_or(BraceProblem::Unclosed))
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
    for piece in pieces(template) {
        match (piece?, segments.last_mut()) {
            (Piece::Text(more), Some(Segment::Text(text))) => text.push_str(more),
            (Piece::Text(text), _) => segments.push(Segment::Text(text.to_owned())),
            (Piece::Placeholder(name), _) => segments.push(Segment::Placeholder(name)),
        }
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
