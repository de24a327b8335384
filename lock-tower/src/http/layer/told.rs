//! [`Told`]: what an operator has been told.

use std::collections::HashSet;

use lock_runtime::__layer_v1::nearest;
use parking_lot::RwLock;

use crate::http::error::KeyError;

/// The most texts that a layer remembers, in case a program has an unbounded number of routes.
const MAX_REMEMBERED: usize = 1024;

/// The texts that a layer has logged, each once.
#[derive(Debug, Default)]
pub(crate) struct Told(RwLock<HashSet<String>>);

impl Told {
    /// Remembers the text; true if it is new.
    fn is_new(&self, text: &str) -> bool {
        let known = self.0.read();
        if known.len() >= MAX_REMEMBERED || known.contains(text) {
            return false;
        }
        drop(known);
        self.0.write().insert(text.to_owned())
    }

    /// True if the error is about the layer's place, and the layer has logged it.
    pub(crate) fn knows(&self, error: &KeyError) -> bool {
        matches!(error, KeyError::Misplaced(_)) && !self.is_new(&error.to_string())
    }

    /// Warns the operator, once for each pattern of the router, that no configured route matches its requests, but one
    /// of these is spelt nearly so.
    pub(crate) fn warn_of_near<'r>(&self, pattern: &str, routes: impl Iterator<Item = &'r str>) {
        if self.is_new(pattern)
            && let Some(near) = nearest(pattern, routes)
        {
            tracing::warn!(
                configured = near,
                router = pattern,
                "a request runs without a lock: no configured route matches its path, but one is spelt nearly as \
                 the router's. To lock that route, correct the path in `[[lock.routes]]`; if it needs no lock, \
                 ignore this"
            );
        }
    }
}
