//! The counts on record: `benches/baseline.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Result;

/// What a count may be above the one on record.
const TOLERANCE: f64 = 1.05;

/// The count of each row.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Baseline(BTreeMap<String, f64>);

impl Baseline {
    pub(super) fn read() -> Result<Self> {
        let text = fs::read_to_string(path())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The highest count that is no regression; zero for a row that is not on record.
    pub(super) fn bound(&self, row: &str) -> f64 {
        self.0.get(row).map_or(0.0, |count| (count * TOLERANCE).round())
    }

    pub(super) fn set(&mut self, row: &str, count: f64) {
        self.0.insert(row.to_owned(), count.round());
    }

    pub(super) fn write(&self) -> Result<()> {
        Ok(fs::write(path(), serde_json::to_string_pretty(self)? + "\n")?)
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}
