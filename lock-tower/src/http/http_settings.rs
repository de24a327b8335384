//! [`HttpSettings`]: what the code says about an HTTP layer, before any policy.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use lock_runtime::{LockClient, LockOptions};

use crate::http::answer::RefusalResponder;
use crate::http::key::{ExtensionParts, KeyFn};
use crate::http::read_ahead::RequestBodies;
use crate::http::settings::HttpPolicy;

/// The settings that the code gives an HTTP layer.
#[derive(Clone)]
pub(crate) struct HttpSettings {
    pub(crate) client: Option<LockClient>,
    pub(crate) options: LockOptions,
    pub(crate) http: HttpPolicy,
    pub(crate) key: Option<Key>,
    pub(crate) route: Option<String>,
    pub(crate) extensions: ExtensionParts,
    pub(crate) follows: Follows,
    /// `None`: the layer answers by itself.
    pub(crate) responder: Option<Arc<dyn RefusalResponder>>,
    pub(crate) bodies: RequestBodies,
    /// Where the layer is made.
    pub(crate) site: &'static Location<'static>,
}

/// What a layer follows of a configuration.
#[derive(Debug, Clone)]
pub(crate) enum Follows {
    Nothing,
    Policy(String),
    Routes,
}

#[derive(Clone)]
pub(crate) enum Key {
    Template(String),
    Function(Arc<KeyFn>),
}

impl Key {
    pub(crate) fn template(&self) -> Option<&str> {
        match self {
            Self::Template(template) => Some(template),
            Self::Function(_) => None,
        }
    }
}

impl HttpSettings {
    pub(crate) fn new(site: &'static Location<'static>) -> Self {
        Self {
            client: None,
            options: LockOptions::new(),
            http: HttpPolicy::default(),
            key: None,
            route: None,
            extensions: ExtensionParts::default(),
            follows: Follows::Nothing,
            responder: None,
            bodies: RequestBodies::known(),
            site,
        }
    }
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSettings")
            .field("client", &self.client)
            .field("follows", &self.follows)
            .field("options", &self.options)
            .field("http", &self.http)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}
