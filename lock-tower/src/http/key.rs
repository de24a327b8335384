//! Makes the lock key of a request.

use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, Method};
use lock_runtime::key::LockKeyBuilder;
use lock_runtime::{KeyPart, LockError, LockKey};

use crate::http::error::{KeyError, invalid};
use crate::http::route::Route;
use crate::http::template::{Piece, Template};
use crate::http::values::{route_text, value};

/// Makes the lock keys of requests, where a template cannot.
pub(crate) type KeyFn = dyn Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync + 'static;

/// Where the keys of a layer come from.
#[derive(Clone)]
pub(crate) enum KeySource {
    Template { template: Template, route: Option<Arc<Route>>, extensions: ExtensionParts },
    Function(Arc<KeyFn>),
}

/// Adds a request extension to a key, if the request has it.
type ExtensionPart = dyn Fn(&Extensions, LockKeyBuilder) -> Option<LockKeyBuilder> + Send + Sync;

/// The request extensions that templates may name.
#[derive(Clone, Default)]
pub(crate) struct ExtensionParts(Vec<(String, Arc<ExtensionPart>)>);

impl ExtensionParts {
    /// Adds the extension of type `T`; it replaces an earlier one of that name.
    pub(crate) fn add<T: KeyPart + Send + Sync + 'static>(&mut self, name: String) {
        self.0.retain(|(known, _)| *known != name);
        let part =
            |extensions: &Extensions, key: LockKeyBuilder| Some(key.part(extensions.get::<T>()?));
        self.0.push((name, Arc::new(part)));
    }

    fn get(&self, name: &str) -> Option<&ExtensionPart> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, part)| &**part)
    }

    pub(crate) fn check(&self, template: &Template) -> Result<(), LockError> {
        let Some(name) = template.extensions().find(|name| self.get(name).is_none()) else {
            return Ok(());
        };
        let known: Vec<_> = self.0.iter().map(|(name, _)| format!("`{{ext.{name}}}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(invalid(format!(
            "`{{ext.{name}}}` is an extension whose type the layer does not know; name it with \
             `extension::<Type>({name:?})`, it knows {known}"
        )))
    }
}

impl KeySource {
    /// Returns the key, or `None` if the request needs no lock: the function says so, or the key needs a route and no
    /// route of the router has matched the request.
    pub(crate) fn key(
        &self,
        parts: &mut Parts,
        method: &Method,
    ) -> Result<Option<LockKey>, KeyError> {
        let (template, route, extensions) = match self {
            Self::Function(function) => return function(parts),
            Self::Template { template, route, extensions } => (template, route, extensions),
        };
        let mut key = LockKey::builder();
        for piece in template.pieces() {
            key = match piece {
                Piece::Text(text) => key.text(text),
                Piece::Method => key.part(method.as_str()),
                Piece::Route => match route_text(route.as_deref(), parts)? {
                    Some(text) => key.part(text),
                    None => return Ok(None),
                },
                Piece::Value(place, name, value_type) => {
                    let Some(text) = value(*place, name, route.as_deref(), parts)? else {
                        return Ok(None);
                    };
                    match value_type {
                        None => key.part(&*text),
                        Some(typed) => (typed.add)(key, &text).ok_or_else(|| {
                            place.malformed(name, &format!("is no {}", typed.name))
                        })?,
                    }
                }
                Piece::Ext(name) => extensions
                    .get(name)
                    .and_then(|part| part(&parts.extensions, key))
                    .ok_or_else(|| KeyError::Missing(format!("extension `{name}`")))?,
            };
        }
        Ok(Some(key.build()?))
    }
}
