//! Rows and numbers as text.

use super::row::{Row, Work};
use crate::record::grouped;

/// Who works in a row.
pub(crate) fn who(row: Row) -> String {
    match (row.processes, row.tasks) {
        (1, 1) => "1 task".to_owned(),
        (1, tasks) => format!("{tasks} tasks"),
        (processes, tasks) => format!("{processes} processes with {tasks} tasks each"),
    }
}

/// What a row measures.
pub(crate) fn title(row: Row) -> String {
    let who = who(row);
    let held = match row.hold.as_millis() {
        0 => String::new(),
        millis => format!(", held for {millis} ms"),
    };
    let work = match row.work {
        Work::Own if row.is_single() => format!("A pair of acquire and release, {who}"),
        Work::Own => format!("Own keys: {who}, each with a lock of its own"),
        Work::Hot => format!("Hot key: {who} on one lock"),
        Work::Fair => format!("Fair lock: {who} on one lock"),
        Work::ReadWrite => format!("Read/write lock: {who} on one lock, 90 % reads"),
    };
    work + &held
}

/// Two digits behind the point for small numbers, none for large ones.
pub(crate) fn significant(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!((significant(0.5), significant(12.34)), ("0.50".into(), "12.3".into()));
        assert_eq!(significant(12_345.6), "12 346");
    }
}
