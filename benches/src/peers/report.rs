//! The report of a run: Markdown.

use std::fmt::Write as _;

use super::result::{Measure, Run};
use super::row::Row;
use super::target::{Bound, verdicts};
use super::text::{significant, title};
use crate::record::grouped;

/// A column of a row's table.
struct Column {
    heading: &'static str,
    measure: Measure,
    show: fn(f64) -> String,
}

const COLUMNS: [Column; 10] = [
    Column::new("a second", Measure::Rate, grouped),
    Column::new("p50, µs", Measure::P50, one_digit),
    Column::new("p99, µs", Measure::P99, one_digit),
    Column::new("hand-over p50, µs", Measure::HandOver, one_digit),
    Column::new("hand-over, round trips", Measure::HandOverTrips, two_digits),
    Column::new("commands", Measure::Commands, two_digits),
    Column::new("server CPU, µs", Measure::ServerCpu, two_digits),
    Column::new("client CPU, µs", Measure::ClientCpu, two_digits),
    Column::new("fewest ÷ most of a task", Measure::Tasks, two_digits),
    Column::new("of a process", Measure::Processes, two_digits),
];

impl Column {
    const fn new(heading: &'static str, measure: Measure, show: fn(f64) -> String) -> Self {
        Self { heading, measure, show }
    }
}

/// The whole report. The charts are file names and titles, in the folder `charts`.
pub(super) fn markdown(run: &Run, charts: &[(String, String)]) -> String {
    let mut text = format!("# Locks beside each other\n\n{}\n", conditions(run));
    let verdicts = targets(run);
    if !verdicts.is_empty() {
        let _ = write!(text, "\n## Targets\n\n{verdicts}");
    }
    for (file, title) in charts {
        let _ = write!(text, "\n![{title}](charts/{file})\n");
    }
    for row in run.rows() {
        let _ = write!(text, "\n## {}\n\n{}", title(row), table(run, row));
    }
    let _ = write!(text, "\n## Contenders\n\n{}", contenders(run));
    text
}

/// What was measured how.
pub(crate) fn conditions(run: &Run) -> String {
    format!(
        "Redis {}, {} processor cores, {} rounds of {} s (with one task, five times as many of a fifth). All contenders \
         use one server, in turns; each driver is a process of its own. Ratios compare turns of one round; every figure is the median over \
         the rounds.",
        run.server_version, run.cores, run.rounds, run.turn_seconds
    )
}

/// What one row shows: a line for each contender.
pub(crate) fn table(run: &Run, row: Row) -> String {
    let name = row.to_string();
    let there = |measure| run.figures.iter().any(|it| it.row == name && it.measure == measure);
    if !there(Measure::Rate) {
        return String::new();
    }
    let columns: Vec<_> = COLUMNS.iter().filter(|column| there(column.measure)).collect();
    let mut text = "| | ".to_owned();
    columns.iter().take(1).for_each(|column| text += column.heading);
    text += " | ours is |";
    columns.iter().skip(1).for_each(|column| _ = write!(text, " {} |", column.heading));
    text += "\n|---|";
    text += &"---:|".repeat(columns.len() + 1);
    text += "\n";
    for contender in &run.contenders {
        let figure = |measure| run.median(&name, &contender.name, measure);
        let Some(rate) = figure(Measure::Rate) else { continue };
        let _ = write!(
            text,
            "| {} | {} | {} |",
            contender.name,
            grouped(rate),
            ahead(run, &name, &contender.name)
        );
        for column in columns.iter().skip(1) {
            let _ =
                write!(text, " {} |", figure(column.measure).map(column.show).unwrap_or_default());
        }
        text += "\n";
    }
    text + &remarks(run, &name)
}

/// How many times the rate of this contender ours is.
fn ahead(run: &Run, row: &str, contender: &str) -> String {
    if contender == "ours" {
        return String::new();
    }
    let ratio = run.ratio(row, Measure::Rate, "ours", contender);
    ratio.map(|ratio| format!("{} ×", significant(ratio))).unwrap_or_default()
}

/// What went wrong in a row.
fn remarks(run: &Run, row: &str) -> String {
    let mut text = String::new();
    for contender in &run.contenders {
        let sum = |measure| {
            let figure = run.figure(row, &contender.name, measure);
            figure.map_or(0.0, |figure| figure.samples.iter().sum())
        };
        let (failures, doubles) = (sum(Measure::Failures), sum(Measure::Doubles));
        if failures > 0.0 {
            let _ = writeln!(text, "\n{}: {failures} acquires or releases failed.", contender.name);
        }
        if doubles > 0.0 {
            let _ =
                writeln!(text, "\n{}: {doubles} times two tasks held the lock.", contender.name);
        }
    }
    text
}

/// What this library is to reach, and whether it does.
pub(crate) fn targets(run: &Run) -> String {
    let verdicts = verdicts(run);
    if verdicts.is_empty() {
        return String::new();
    }
    let mut text = "| row | figure | target | reached | |\n|---|---|---:|---:|---|\n".to_owned();
    for verdict in verdicts {
        let bound = match verdict.bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
        };
        let met = if verdict.is_met() { "met" } else { "missed" };
        let value = significant(verdict.value);
        let _ =
            writeln!(text, "| `{}` | {} | {bound} | {value} | {met} |", verdict.row, verdict.what);
    }
    text
}

/// Versions and settings.
pub(crate) fn contenders(run: &Run) -> String {
    let mut text = "| | version | settings |\n|---|---|---|\n".to_owned();
    for entry in &run.contenders {
        let missing = entry.missing.as_ref().map(|why| format!("**missing**: {why}. "));
        let settings = missing.unwrap_or_default() + &entry.settings;
        let _ = writeln!(text, "| {} | {} | {settings} |", entry.name, entry.version);
    }
    text
}

fn one_digit(value: f64) -> String {
    format!("{value:.1}")
}

fn two_digits(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::result::run_of;

    #[test]
    fn a_table_has_a_line_for_each_contender() {
        let mut run = run_of(&[("hot-8", "ours", &[436_600.0]), ("hot-8", "rslock", &[7_200.0])]);
        run.figures.push(crate::peers::result::Figure {
            row: "hot-8".to_owned(),
            contender: "ours".to_owned(),
            measure: Measure::Commands,
            samples: vec![0.042],
        });
        let table = table(&run, Row::ALL[2]);
        assert!(table.contains("| | a second | ours is | commands |"), "{table}");
        assert!(table.contains("| ours | 436 600 |  | 0.04 |"), "{table}");
        assert!(table.contains("| rslock | 7 200 | 60.6 × |  |"), "{table}");
    }

    #[test]
    fn a_missing_peer_is_named() {
        let mut run = run_of(&[("hot-8", "ours", &[1.0])]);
        run.contenders[0].missing = Some("`mvn` cannot be run".to_owned());
        assert!(markdown(&run, &[]).contains("**missing**: `mvn` cannot be run."));
    }
}
