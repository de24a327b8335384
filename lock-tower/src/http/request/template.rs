//! Key templates over a request. `lock_runtime::policy` parses and checks them, also in configurations.

use http::HeaderName;
use lock_runtime::policy::{KeyPiece, ValueType, key_pieces};

use crate::http::error::BuildError;

/// `order:{path.id}:{header.x-tenant}`, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text between placeholders.
    Text(String),
    /// `{method}`
    Method,
    /// `{route}`
    Route,
    /// `{path.id}` or `{path.id:u64}`
    Path(String, ValueType),
    /// `{query.q}` or `{query.q:u64}`
    Query(String, ValueType),
    /// `{header.x-tenant}` or `{header.x-tenant:uuid}`
    Header(HeaderName, ValueType),
    /// `{ext.tenant}`
    Ext(String),
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, BuildError> {
        let wrong = |problem| BuildError::new(format!("the key template {problem}"));
        let pieces = key_pieces(text).map_err(wrong)?;
        Ok(Self { pieces: pieces.into_iter().map(piece).collect::<Result<_, _>>()? })
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The path parameters that it names.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Path(name, _) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The extensions that it names.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Ext(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// True if it says which route matched.
    pub(crate) fn has_route(&self) -> bool {
        self.pieces.contains(&Piece::Route)
    }
}

fn piece(piece: KeyPiece<'_>) -> Result<Piece, BuildError> {
    Ok(match piece {
        KeyPiece::Text(text) => Piece::Text(text),
        KeyPiece::Method => Piece::Method,
        KeyPiece::Route => Piece::Route,
        KeyPiece::Path(name, value) => Piece::Path(name.to_owned(), value),
        KeyPiece::Query(name, value) => Piece::Query(name.to_owned(), value),
        KeyPiece::Ext(name) => Piece::Ext(name.to_owned()),
        KeyPiece::Header(name, value) => match name.parse() {
            Ok(name) => Piece::Header(name, value),
            Err(_) => {
                return Err(BuildError::new(format!(
                    "the key template has the header {name:?}, \
                     which no request can have; write another one"
                )));
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn path(name: &str) -> Piece {
        Piece::Path(name.to_owned(), ValueType::Text)
    }

    #[test]
    fn templates_come_apart() {
        let tenant = |value| Piece::Header(HeaderName::from_static("x-tenant"), value);
        let query = |name: &str, value| Piece::Query(name.to_owned(), value);
        for (template, pieces) in [
            ("nightly", vec![text("nightly")]),
            ("{path.id}", vec![path("id")]),
            (
                "o:{path.id}:{header.X-Tenant}",
                vec![text("o:"), path("id"), text(":"), tenant(ValueType::Text)],
            ),
            ("{header.x-tenant:uuid}", vec![tenant(ValueType::Uuid)]),
            ("{path.id:u64}", vec![Piece::Path("id".to_owned(), ValueType::U64)]),
            ("{query.a:b:i8}", vec![query("a:b", ValueType::I8)]),
            ("{method}:{path.a.b}", vec![Piece::Method, text(":"), path("a.b")]),
            ("{route}:{query.q}", vec![Piece::Route, text(":"), query("q", ValueType::Text)]),
            ("{ext.tenant}", vec![Piece::Ext("tenant".to_owned())]),
            ("x:{{{path.id}}}:y", vec![text("x:{"), path("id"), text("}:y")]),
        ] {
            assert_eq!(Template::parse(template).unwrap().pieces, pieces, "{template}");
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

    /// The configuration does not know the library that parses names of headers.
    #[test]
    fn a_configuration_knows_the_names_of_headers() {
        for c in '\0'..='\u{100}' {
            let name = format!("x{c}");
            let template = format!("k:{{header.{name}}}");
            let is_accepted = key_pieces(&template).is_ok();
            // Braces end the placeholder.
            let is_header = name.parse::<HeaderName>().is_ok() && !"{}".contains(c);
            assert_eq!(is_accepted, is_header, "{name:?}");
        }
    }

    #[test]
    fn separated_values_are_accepted() {
        for template in ["{path.a}:{path.b}", "{path.a} - {path.b}", "{{{path.a}}}{path.b}"] {
            assert!(Template::parse(template).is_ok(), "{template}");
        }
    }
}
