//! Key templates over a request, parsed and checked when the layer is built.

use http::HeaderName;
use lock_runtime::{LockError, LockKey};
use lock_syntax::template::{BraceProblem, Part, Segment, parse, unseparated};

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
    /// `{path.id}`
    Path(String),
    /// `{query.q}`
    Query(String),
    /// `{header.x-tenant}`
    Header(HeaderName),
    /// `{ext.tenant}`
    Ext(String),
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, BuildError> {
        let template = Self { pieces: pieces(text)? };
        template.check_separators()?;
        template.check_shape()?;
        Ok(template)
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The path parameters that it names.
    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Path(name) => Some(name.as_str()),
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

    /// Checks that no two neighbouring values could run together and make one key of different values.
    fn check_separators(&self) -> Result<(), BuildError> {
        let parts = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => Part::Text(text.as_str()),
            value => Part::Escaped(value),
        });
        match unseparated(parts) {
            None => Ok(()),
            Some((before, after)) => Err(BuildError::new(format!(
                "`{{{before}}}` and `{{{after}}}` could run together, and different values \
                 then make the same key; put a `:` between them"
            ))),
        }
    }

    /// What is wrong with every key of this shape is wrong with the template.
    // S-1, S-2.
    fn check_shape(&self) -> Result<(), BuildError> {
        let sample: String = self
            .pieces
            .iter()
            .map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "_" })
            .collect();
        match LockKey::new(&sample) {
            Ok(_) => Ok(()),
            Err(LockError::InvalidKey { problem, .. }) => {
                // The client with its namespace comes later, so that is no help here.
                let problem = problem.replace("put text or a namespace in", "put text in");
                Err(BuildError::new(format!("the key template makes no valid key: {problem}")))
            }
            Err(error) => Err(BuildError::new(error.to_string())),
        }
    }
}

impl std::fmt::Display for Piece {
    /// The text between the braces.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Method => f.write_str("method"),
            Self::Route => f.write_str("route"),
            Self::Query(name) => write!(f, "query.{name}"),
            Self::Ext(name) => write!(f, "ext.{name}"),
            Self::Path(name) => write!(f, "path.{name}"),
            Self::Header(name) => write!(f, "header.{name}"),
        }
    }
}

fn pieces(template: &str) -> Result<Vec<Piece>, BuildError> {
    let segments = parse(template).map_err(|problem| match problem {
        BraceProblem::Unclosed => BuildError::new(
            "a `{` in the key template is never closed; write `{{` for a brace that is part of the key",
        ),
        BraceProblem::Unopened => BuildError::new(
            "a `}` in the key template closes nothing; write `}}` for a brace that is part of the key",
        ),
    })?;
    if segments.is_empty() {
        return Err(BuildError::new(
            "the key template is empty; give the lock a name, such as `order:{path.id}`",
        ));
    }
    let piece = |segment| match segment {
        Segment::Text(text) => Ok(Piece::Text(text)),
        Segment::Placeholder(name) => placeholder(name),
    };
    segments.into_iter().map(piece).collect()
}

fn placeholder(name: &str) -> Result<Piece, BuildError> {
    let unnamed = |what: &str, example: &str| {
        BuildError::new(format!("`{{{name}}}` names no {what}; write it, such as `{{{example}}}`"))
    };
    match name.split_once('.') {
        None if name == "method" => Ok(Piece::Method),
        None if name == "route" => Ok(Piece::Route),
        Some(("path", "")) => Err(unnamed("path parameter", "path.id")),
        Some(("header", "")) => Err(unnamed("header", "header.x-tenant")),
        Some(("query", "")) => Err(unnamed("query parameter", "query.q")),
        Some(("ext", "")) => Err(unnamed("extension", "ext.tenant")),
        Some(("query", parameter)) => Ok(Piece::Query(parameter.to_owned())),
        Some(("ext", extension)) => Ok(Piece::Ext(extension.to_owned())),
        Some(("path", parameter)) if !parameter.contains(['/', '*', ':']) => {
            Ok(Piece::Path(parameter.to_owned()))
        }
        Some(("header", header)) => header.parse().map(Piece::Header).map_err(|_| {
            BuildError::new(format!(
                "`{{{name}}}` names no header that could exist: {header:?} is no header name"
            ))
        }),
        // Attributes name an argument so, and axum writes a path's parameter so.
        None if is_parameter(name) => Err(BuildError::new(format!(
            "unknown placeholder `{{{name}}}`; a parameter of the path is `{{path.{name}}}`"
        ))),
        _ => Err(BuildError::new(format!(
            "unknown placeholder `{{{name}}}`; there are `{{method}}`, `{{route}}`, \
             `{{path.<parameter>}}`, `{{query.<parameter>}}`, `{{header.<name>}}` and `{{ext.<name>}}`"
        ))),
    }
}

/// True for what can only be meant as a parameter: a name, and no word that stands before one.
fn is_parameter(name: &str) -> bool {
    let is_name = name.starts_with(|c: char| c.is_lowercase())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name && !["path", "query", "header", "ext"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn path(name: &str) -> Piece {
        Piece::Path(name.to_owned())
    }

    #[test]
    fn templates_come_apart() {
        let tenant = Piece::Header(HeaderName::from_static("x-tenant"));
        for (template, pieces) in [
            ("nightly", vec![text("nightly")]),
            ("{path.id}", vec![path("id")]),
            ("o:{path.id}:{header.X-Tenant}", vec![text("o:"), path("id"), text(":"), tenant]),
            ("{method}:{path.a.b}", vec![Piece::Method, text(":"), path("a.b")]),
            ("{route}:{query.q}", vec![Piece::Route, text(":"), Piece::Query("q".to_owned())]),
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
            ("{}", "unknown placeholder `{}`; there are `{method}`"),
            ("{path}", "unknown placeholder `{path}`; there are"),
            ("{id}", "unknown placeholder `{id}`; a parameter of the path is `{path.id}`"),
            ("{Method}", "unknown placeholder `{Method}`"),
            ("{method.x}", "unknown placeholder `{method.x}`"),
            (
                "{querry.q}",
                "unknown placeholder `{querry.q}`; there are `{method}`, `{route}`, `{path.<p",
            ),
            ("{query.}", "`{query.}` names no query parameter"),
            ("{ext.}", "`{ext.}` names no extension"),
            ("{path.id:raw}", "unknown placeholder `{path.id:raw}`"),
            ("{path.}", "`{path.}` names no path parameter"),
            ("{header.}", "`{header.}` names no header; write it"),
            ("{header.x y}", "\"x y\" is no header name"),
            ("{path.a}{path.b}", "`{path.a}` and `{path.b}` could run together"),
            ("{method}-{header.x}", "`{method}` and `{header.x}` could run together"),
            ("{path.a}%{path.b}", "put a `:` between them"),
            ("a\n{path.b}", "control character '\\n'"),
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
