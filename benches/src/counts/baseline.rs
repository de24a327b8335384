//! The counts on record: `benches/baseline.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Result;

/// The counts of each row, by their names.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Baseline(BTreeMap<String, BTreeMap<String, f64>>);

impl Baseline {
    pub(super) fn read() -> Result<Self> {
        let text = fs::read_to_string(path())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The count on record, if there is one.
    pub(super) fn get(&self, row: &str, count: &str) -> Option<f64> {
        self.0.get(row)?.get(count).copied()
    }

    pub(super) fn set(&mut self, row: &str, count: &str, value: f64) {
        self.0.entry(row.to_owned()).or_default().insert(count.to_owned(), rounded(value));
    }

    pub(super) fn write(&self) -> Result<()> {
        Ok(fs::write(path(), serde_json::to_string_pretty(self)? + "\n")?)
    }
}

/// To four digits: the others are chance.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_kept() {
        let kept = [(34_557.4, "34560"), (0.018_765, "0.01877"), (2.0, "2"), (0.0, "0")];
        for (value, kept) in kept.into_iter().chain([(251_804_321.0, "251800000")]) {
            assert_eq!(rounded(value).to_string(), kept, "{value}");
        }
    }
}
