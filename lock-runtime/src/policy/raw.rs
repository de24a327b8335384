//! Values of a configuration that other crates of the workspace read: settings and routes of HTTP layers.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::ConfigError;

/// A value of any format, as it was written.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Raw(Value);

/// Prints `…` in place of the value: no reader has checked it yet, so it may contain an address with its password.
impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Raw {
    /// Returns this table with the fields of `lower` that it does not have.
    pub(super) fn or(self, lower: &Self) -> Self {
        Self(match (self.0, &lower.0) {
            (Value::Object(mut own), Value::Object(lower)) => {
                for (field, value) in lower {
                    own.entry(field).or_insert_with(|| value.clone());
                }
                Value::Object(own)
            }
            (own, _) => own,
        })
    }

    /// Reads the table at `path`; an empty value, as in YAML, is an empty table.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        expected: &str,
    ) -> Result<T, ConfigError> {
        let table = match &self.0 {
            Value::Null => Value::Object(Map::new()),
            Value::Object(_) => self.0.clone(),
            _ => return Err(ConfigError::one(path, format!("expected {expected}"))),
        };
        serde_path_to_error::deserialize(table)
            .map_err(|error| ConfigError::from_serde(path, &error))
    }
}
