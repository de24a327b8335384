//! Key templates over a request, as a layer or a configuration has them.

use std::fmt;

use http::HeaderName;
use lock_runtime::__layer_v1::nearest;
use lock_runtime::__layer_v1::template::{BraceProblem, Part, Segment, parse, unseparated};
use lock_runtime::{LockError, LockKey};

use crate::http::value_type::{TYPES, ValueType};

/// `order:{path.id}:{header.x-tenant}`, parsed.
#[derive(Debug, Clone)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// Text between placeholders.
    Text(String),
    /// `{method}`
    Method,
    /// `{route}`
    Route,
    /// `{path.id}`, `{query.q:u64}` or `{header.x-tenant:uuid}`; `None` is the text as the request has it.
    Value(Place, String, Option<&'static ValueType>),
    /// `{ext.tenant}`
    Ext(String),
}

/// Where a value stands in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Query,
    Header,
}

impl Template {
    /// Parses a template, and checks everything that needs no layer.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what to write instead: the rest of a sentence that begins with the template.
    pub(crate) fn parse(template: &str) -> Result<Self, String> {
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
            Segment::Text(text) => Ok(Piece::Text(text)),
            Segment::Placeholder(name) => placeholder(name),
        };
        let pieces: Vec<_> = segments.into_iter().map(piece).collect::<Result<_, _>>()?;
        check_separators(&pieces)?;
        check_shape(&pieces)?;
        Ok(Self(pieces))
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// The path parameters that it names.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Value(Place::Path, name, _) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The extensions that it names.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Ext(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// True if it says which route matched.
    pub(crate) fn has_route(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Route))
    }
}

fn placeholder(name: &str) -> Result<Piece, String> {
    let unnamed = |what: &str, example: &str| {
        Err(format!("names no {what} in `{{{name}}}`; write it, such as `{{{example}}}`"))
    };
    let (place, rest) = name.split_once('.').unzip();
    let is_typed = matches!(place, Some("path" | "query" | "header"));
    let (rest, value) = match rest.and_then(|rest| rest.rsplit_once(':')).filter(|_| is_typed) {
        Some((rest, written)) => (Some(rest), Some(value_type(name, written)?)),
        None => (rest, None),
    };
    match place.zip(rest) {
        None if name == "method" => Ok(Piece::Method),
        None if name == "route" => Ok(Piece::Route),
        _ if name.trim().is_empty() => {
            Err("has a `{}` that names nothing; write `{path.id}` or the like".to_owned())
        }
        Some(("path", "")) => unnamed("path parameter", "path.id"),
        Some(("header", "")) => unnamed("header", "header.x-tenant"),
        Some(("query", "")) => unnamed("query parameter", "query.q"),
        Some(("ext", "")) => unnamed("extension", "ext.tenant"),
        Some(("query", parameter)) => Ok(Piece::Value(Place::Query, parameter.to_owned(), value)),
        Some(("ext", extension)) => Ok(Piece::Ext(extension.to_owned())),
        Some(("path", parameter)) if !parameter.contains(['/', '*', ':']) => {
            Ok(Piece::Value(Place::Path, parameter.to_owned(), value))
        }
        Some(("header", header)) => match header.parse::<HeaderName>() {
            Ok(header) => Ok(Piece::Value(Place::Header, header.as_str().to_owned(), value)),
            Err(_) => Err(format!(
                "names a header in `{{{name}}}` that cannot exist: {header:?} is no header name; write it \
                 as in `{{header.x-tenant}}`"
            )),
        },
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

fn value_type(name: &str, written: &str) -> Result<&'static ValueType, String> {
    TYPES.iter().find(|known| known.name == written).ok_or_else(|| {
        let names = || TYPES.iter().map(|known| known.name);
        let meant = nearest(written, names());
        let meant = meant.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
        let there_are = names().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
        format!("has the unknown type `{written}` in `{{{name}}}`; there are {there_are}{meant}")
    })
}

/// True for what can only be meant as a parameter: a name, and no word that stands before one.
fn is_parameter(name: &str) -> bool {
    let is_name = name.starts_with(|c: char| c.is_lowercase())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name && !["path", "query", "header", "ext"].contains(&name)
}

/// Checks that no two neighbouring values could run together and make one key of different values.
// S-3.
fn check_separators(pieces: &[Piece]) -> Result<(), String> {
    let parts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => Part::Text(text.as_str()),
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
fn check_shape(pieces: &[Piece]) -> Result<(), String> {
    let sample = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.as_str(),
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

impl fmt::Display for Piece {
    /// Writes the text, or what stands between the braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Method => f.write_str("method"),
            Self::Route => f.write_str("route"),
            Self::Value(place, name, value) => {
                let place = match place {
                    Place::Path => "path",
                    Place::Query => "query",
                    Place::Header => "header",
                };
                write!(f, "{place}.{name}")?;
                value.map_or(Ok(()), |value| write!(f, ":{}", value.name))
            }
            Self::Ext(name) => write!(f, "ext.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_come_apart() {
        for (template, pieces) in [
            ("nightly", &["nightly"][..]),
            ("{path.id}", &["<path.id>"]),
            ("o:{path.id}:{header.X-Tenant}", &["o:", "<path.id>", ":", "<header.x-tenant>"]),
            ("{header.x-tenant:uuid}", &["<header.x-tenant:uuid>"]),
            ("{path.id:u64}", &["<path.id:u64>"]),
            ("{query.a:b:i8}", &["<query.a:b:i8>"]),
            ("{method}:{path.a.b}", &["<method>", ":", "<path.a.b>"]),
            ("{route}:{query.q}", &["<route>", ":", "<query.q>"]),
            ("{ext.tenant}", &["<ext.tenant>"]),
            ("x:{{{path.id}}}:y", &["x:{", "<path.id>", "}:y"]),
        ] {
            let piece = |piece: &Piece| match piece {
                Piece::Text(text) => text.clone(),
                value => format!("<{value}>"),
            };
            let found: Vec<_> = Template::parse(template).unwrap().0.iter().map(piece).collect();
            assert_eq!(found, pieces, "{template}");
        }
    }

    #[test]
    fn broken_templates_say_why() {
        for (template, reason) in [
            ("", "is empty; give the lock a name"),
            ("a{", "never closed; write `{{`"),
            ("{path.a{path.b}}", "never closed"),
            ("a}", "closes nothing; write `}}`"),
            ("{}", "has a `{}` that names nothing"),
            ("{path}", "unknown placeholder `{path}`; there are"),
            ("{id}", "unknown placeholder `{id}`; a parameter of the path is `{path.id}`"),
            ("{Method}", "unknown placeholder `{Method}`"),
            ("{method.x}", "unknown placeholder `{method.x}`"),
            (
                "{querry.q}",
                "unknown placeholder `{querry.q}`; there are `{method}`, `{route}`, `{path.<p",
            ),
            ("{query.}", "names no query parameter in `{query.}`"),
            ("{ext.}", "names no extension in `{ext.}`"),
            (
                "{path.id:u46}",
                "has the unknown type `u46` in `{path.id:u46}`; there are `u8`, `u16`, `u32`, `u64`, \
                 `u128`, `usize`, `i8`, `i16`, `i32`, `i64`, `i128`, `isize`, `uuid`; did you mean `u16`?",
            ),
            ("{header.x:UUID}", "has the unknown type `UUID` in `{header.x:UUID}`; there are"),
            ("{query.q:}", "has the unknown type `` in `{query.q:}`; there are"),
            ("{path.:u64}", "names no path parameter in `{path.:u64}`"),
            ("{method:u64}", "unknown placeholder `{method:u64}`"),
            ("{path.a:u8}{path.b:u8}", "`{path.a:u8}` and `{path.b:u8}`, which could run together"),
            ("{path.}", "names no path parameter in `{path.}`"),
            ("{header.}", "names no header in `{header.}`; write it"),
            ("{header.x y}", "\"x y\" is no header name"),
            ("{path.a}{path.b}", "`{path.a}` and `{path.b}`, which could run together"),
            ("{method}-{header.x}", "`{method}` and `{header.x}`, which could run together"),
            ("{path.a}%{path.b}", "put a `:` between them"),
            ("a\n{path.b}", "contains a control character"),
            ("a{{b", "hash tag"),
            ("a{{}}{path.b}", "hash tag"),
            (
                "redisson_lock_token:{path.b}",
                "begins with `redisson_lock_token:`, which is reserved",
            ),
            ("redisson_lock_token:{path.b}", "of other locks; put text in front of it"),
            ("{{{path.b}}}:timeout", "ends with `:timeout` behind a hash tag"),
            (&"x".repeat(513), "513 bytes"),
        ] {
            let message = Template::parse(template).unwrap_err().to_string();
            assert!(message.contains(reason), "{template}: {message}");
            assert!(!message.contains('\n') && !message.ends_with('.'), "{message}");
        }
    }

    #[test]
    fn separated_values_are_accepted() {
        for template in ["{path.a}:{path.b}", "{path.a} - {path.b}", "{{{path.a}}}{path.b}"] {
            assert!(Template::parse(template).is_ok(), "{template}");
        }
    }
}
