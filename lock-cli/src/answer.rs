//! What a command answers: text for people, or JSON for scripts.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde_json::Value;

use crate::failure::FINE;

/// What a command answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// `None` if it was printed already.
    pub(crate) json: Option<Value>,
    /// What the reader must know beside the answer, a sentence each; printed as errors are, so that they stay out of pipes.
    pub(crate) notes: Vec<String>,
    pub(crate) code: u8,
}

impl Answer {
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json: Some(json), notes: Vec::new(), code: FINE }
    }

    /// The end of an answer that was printed piece by piece.
    pub(crate) fn end() -> Self {
        Self { text: String::new(), json: None, notes: Vec::new(), code: FINE }
    }

    pub(crate) fn with_notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

/// A table without lines, whose columns are as wide as they have to be. `right` are the columns of numbers.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    right: &[usize],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}
