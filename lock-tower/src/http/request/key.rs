//! Makes the lock key of a request.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, Method};
use lock_runtime::key::LockKeyBuilder;
use lock_runtime::{KeyPart, LockError, LockKey};

use crate::http::config::settings::OnMissingKey;
use crate::http::error::KeyError;
use crate::http::request::path::{KnownRoute, PathValues, unknown};
use crate::http::request::place::matched_path;
use crate::http::request::template::{Piece, Template};
use crate::http::request::values::{add, header, of_header, of_query, query};

/// Makes the lock keys of requests, where a template cannot.
pub(crate) type KeyFn = dyn Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync + 'static;

/// Where the keys of a layer come from.
#[derive(Clone)]
pub(crate) enum KeySource {
    Template { template: Template, route: Option<KnownRoute>, extensions: Arc<ExtensionParts> },
    Function(Arc<KeyFn>),
}

/// Adds a request extension to a key; returns the builder unchanged as an error if there is none.
type ExtensionPart =
    dyn Fn(&Extensions, LockKeyBuilder) -> Result<LockKeyBuilder, LockKeyBuilder> + Send + Sync;

/// The request extensions that templates may name.
#[derive(Clone, Default)]
pub(crate) struct ExtensionParts(Vec<(String, Arc<ExtensionPart>)>);

impl ExtensionParts {
    /// Adds the extension of type `T`; it replaces an earlier one of that name.
    pub(crate) fn add<T: KeyPart + Send + Sync + 'static>(&mut self, name: String) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((
            name,
            Arc::new(|extensions, key| match extensions.get::<T>() {
                Some(value) => Ok(key.part(value)),
                None => Err(key),
            }),
        ));
    }

    fn get(&self, name: &str) -> Option<&ExtensionPart> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, part)| &**part)
    }

    pub(crate) fn check(&self, template: &Template) -> Result<(), LockError> {
        let Some(name) = template.extensions().find(|name| self.get(name).is_none()) else {
            return Ok(());
        };
        let known: Vec<_> = self.0.iter().map(|(name, _)| format!("`{{ext.{name}}}`")).collect();
        let known = if known.is_empty() {
            "knows none".to_owned()
        } else {
            "knows ".to_owned() + &known.join(", ")
        };
        Err(LockError::InvalidOptions(format!(
            "`{{ext.{name}}}` is an extension whose type the layer does not know; name it with \
             `extension::<Type>({name:?})`, it {known}"
        )))
    }
}

impl KeySource {
    pub(crate) fn key(
        &self,
        parts: &mut Parts,
        method: &Method,
        on_missing: OnMissingKey,
    ) -> Result<Option<LockKey>, KeyError> {
        let key = match self {
            Self::Template { template, route, extensions } => {
                fill(template, route.as_ref(), extensions, method, parts)
            }
            Self::Function(function) => function(parts),
        };
        match key {
            Err(KeyError::Missing(_)) if on_missing == OnMissingKey::Skip => Ok(None),
            key => key,
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template { template, .. } => template.fmt(f),
            Self::Function(_) => f.write_str("function"),
        }
    }
}

/// Returns the key, or `None` if it needs a route and no route of the router has matched the request.
fn fill(
    template: &Template,
    route: Option<&KnownRoute>,
    extensions: &ExtensionParts,
    method: &Method,
    parts: &mut Parts,
) -> Result<Option<LockKey>, KeyError> {
    let path = match route {
        Some(route) => PathValues::Known(route),
        None if template.path_parameters().next().is_some() => PathValues::of_router(parts)?,
        None => PathValues::None,
    };
    let mut key = LockKey::builder();
    for piece in template.pieces() {
        key = match piece {
            Piece::Text(text) => key.text(text),
            Piece::Method => key.part(method.as_str()),
            Piece::Route => match route_text(route, parts)? {
                Some(text) => key.part(text),
                None => return Ok(None),
            },
            Piece::Path(name, value) => match path.add(key, parts, name, *value)? {
                Some(key) => key,
                None => return Ok(None),
            },
            Piece::Query(name, value) => add(key, *value, &query(parts, name)?, || of_query(name))?,
            Piece::Header(name, value) => {
                add(key, *value, header(parts, name)?, || of_header(name))?
            }
            Piece::Ext(name) => {
                let missing = |_| KeyError::Missing(format!("extension `{name}`"));
                let part = extensions.get(name).ok_or_else(|| missing(()))?;
                part(&parts.extensions, key).map_err(|_| missing(()))?
            }
        };
    }
    Ok(Some(key.build()?))
}

/// Returns the pattern of the route, which is the same for all its requests.
fn route_text<'a>(
    route: Option<&'a KnownRoute>,
    parts: &'a Parts,
) -> Result<Option<&'a str>, KeyError> {
    match (route, matched_path(&parts.extensions)) {
        (Some(known), _) if known.route.matches(known.path(parts)) => Ok(Some(known.route.text())),
        (Some(_), _) => Err(KeyError::Missing("path of the route".to_owned())),
        (None, Some(matched)) => Ok(Some(matched)),
        (None, None) => unknown(parts, "has no pattern"),
    }
}
