//! Key templates of layers: parsed and checked for a configuration when it is read, and for a layer when it is built.

use std::fmt;

use lock_syntax::nearest;
use lock_syntax::template::{BraceProblem, Part, Segment, parse, unseparated};

use super::value_type::ValueType;
use crate::error::LockError;
use crate::key::LockKey;

/// A part of the key template of a layer.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPiece<'a> {
    /// Text between placeholders.
    Text(String),
    /// `{method}`
    Method,
    /// `{route}`
    Route,
    /// `{path.id}` or `{path.id:u64}`
    Path(&'a str, ValueType),
    /// `{query.q}` or `{query.q:u64}`
    Query(&'a str, ValueType),
    /// `{header.x-tenant}` or `{header.x-tenant:uuid}`; the name as written.
    Header(&'a str, ValueType),
    /// `{ext.tenant}`
    Ext(&'a str),
}

/// Parses the key template of a layer, and checks everything that needs no layer.
///
/// # Errors
///
/// What is wrong with it, and what to write instead: the rest of a sentence that begins with the template.
#[doc(hidden)]
pub fn key_pieces(template: &str) -> Result<Vec<KeyPiece<'_>>, String> {
    if template.is_empty() {
        return Err(r#"is empty; give the lock a name, such as "order:{path.id}""#.to_owned());
    }
    if template.contains(char::is_control) {
        return Err("contains a control character, which no key may; take it out".to_owned());
    }
    let segments = parse(template).map_err(|problem| match problem {
        BraceProblem::Unclosed => {
            "has a `{` that is never closed; write `{{` for a brace of the key"
        }
        BraceProblem::Unopened => {
            "has a `}` that closes nothing; write `}}` for a brace of the key"
        }
    })?;
    let piece = |segment| match segment {
        Segment::Text(text) => Ok(KeyPiece::Text(text)),
        Segment::Placeholder(name) => placeholder(name),
    };
    let pieces: Vec<_> = segments.into_iter().map(piece).collect::<Result<_, _>>()?;
    check_separators(&pieces)?;
    check_shape(&pieces)?;
    Ok(pieces)
}

fn placeholder(name: &str) -> Result<KeyPiece<'_>, String> {
    let unnamed = |what: &str, example: &str| {
        Err(format!("names no {what} in `{{{name}}}`; write it, such as `{{{example}}}`"))
    };
    let (place, rest) = name.split_once('.').unzip();
    let is_typed = matches!(place, Some("path" | "query" | "header"));
    let (rest, value) = match rest.and_then(|rest| rest.rsplit_once(':')).filter(|_| is_typed) {
        Some((rest, written)) => (Some(rest), value_type(name, written)?),
        None => (rest, ValueType::Text),
    };
    match place.zip(rest) {
        None if name == "method" => Ok(KeyPiece::Method),
        None if name == "route" => Ok(KeyPiece::Route),
        _ if name.trim().is_empty() => {
            Err("has a `{}` that names nothing; write `{path.id}` or the like".to_owned())
        }
        Some(("path", "")) => unnamed("path parameter", "path.id"),
        Some(("header", "")) => unnamed("header", "header.x-tenant"),
        Some(("query", "")) => unnamed("query parameter", "query.q"),
        Some(("ext", "")) => unnamed("extension", "ext.tenant"),
        Some(("query", parameter)) => Ok(KeyPiece::Query(parameter, value)),
        Some(("ext", extension)) => Ok(KeyPiece::Ext(extension)),
        Some(("path", parameter)) if !parameter.contains(['/', '*', ':']) => {
            Ok(KeyPiece::Path(parameter, value))
        }
        Some(("header", header)) if header.bytes().all(is_of_header) => {
            Ok(KeyPiece::Header(header, value))
        }
        Some(("header", header)) => Err(format!(
            "names a header in `{{{name}}}` that cannot exist: {header:?} is no header name; write it \
             as in `{{header.x-tenant}}`"
        )),
        // Attributes name an argument so, and axum writes a path's parameter so.
        None if is_parameter(name) => Err(format!(
            "has the unknown placeholder `{{{name}}}`; a parameter of the path is `{{path.{name}}}`"
        )),
        _ => Err(format!(
            "has the unknown placeholder `{{{name}}}`; there are `{{method}}`, `{{route}}`, \
             `{{path.<parameter>}}`, `{{query.<parameter>}}`, `{{header.<name>}}` and `{{ext.<name>}}`"
        )),
    }
}

fn value_type(name: &str, written: &str) -> Result<ValueType, String> {
    ValueType::named(written).ok_or_else(|| {
        let there_are = ValueType::names().map(|it| format!("`{it}`")).collect::<Vec<_>>();
        let meant = nearest(written, ValueType::names());
        let meant = meant.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
        format!(
            "has the unknown type `{written}` in `{{{name}}}`; there are {}{meant}",
            there_are.join(", ")
        )
    })
}

/// True for the bytes of header names: the tokens of HTTP.
fn is_of_header(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// True for what can only be meant as a parameter: a name, and no word that stands before one.
fn is_parameter(name: &str) -> bool {
    let is_name = name.starts_with(|c: char| c.is_lowercase())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name && !["path", "query", "header", "ext"].contains(&name)
}

/// Checks that no two neighbouring values could run together and make one key of different values.
// S-3.
fn check_separators(pieces: &[KeyPiece<'_>]) -> Result<(), String> {
    let parts = pieces.iter().map(|piece| match piece {
        KeyPiece::Text(text) => Part::Text(text.as_str()),
        value => Part::Escaped(value),
    });
    match unseparated(parts) {
        None => Ok(()),
        Some((before, after)) => Err(format!(
            "has the neighbours `{{{before}}}` and `{{{after}}}`, which could run together: different \
             values would make the same key; put a `:` between them"
        )),
    }
}

/// Checks what all keys of this shape have in common.
// S-1, S-2.
fn check_shape(pieces: &[KeyPiece<'_>]) -> Result<(), String> {
    let sample = pieces.iter().map(|piece| match piece {
        KeyPiece::Text(text) => text.as_str(),
        _ => "_",
    });
    match LockKey::new(sample.collect::<String>()) {
        Ok(_) => Ok(()),
        Err(LockError::InvalidKey { problem, .. }) => {
            // A namespace comes later, so it is no help here.
            let problem = problem.replace("put text or a namespace in", "put text in");
            Err(format!("makes no valid key: {problem}"))
        }
        Err(error) => Err(format!("makes no valid key: {error}")),
    }
}

impl fmt::Display for KeyPiece<'_> {
    /// Writes the text, or what stands between the braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Method => f.write_str("method"),
            Self::Route => f.write_str("route"),
            Self::Path(name, value) => write!(f, "path.{name}{value}"),
            Self::Query(name, value) => write!(f, "query.{name}{value}"),
            Self::Header(name, value) => write!(f, "header.{name}{value}"),
            Self::Ext(name) => write!(f, "ext.{name}"),
        }
    }
}

/// Returns the problem of a key template.
pub(crate) fn problem(template: &str) -> Option<String> {
    key_pieces(template).err()
}
