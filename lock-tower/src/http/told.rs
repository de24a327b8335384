//! [`Told`]: what an operator has been told.

use std::collections::HashSet;

use parking_lot::RwLock;

use crate::http::error::KeyError;

/// The most texts that a layer remembers, in case a program has an unbounded number of routes.
const MAX_REMEMBERED: usize = 1024;

/// The texts that a layer has logged, each once.
#[derive(Default)]
pub(crate) struct Told(RwLock<HashSet<String>>);

impl Told {
    /// Remembers the text; true if it is new.
    pub(crate) fn is_new(&self, text: &str) -> bool {
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
}
