//! The report of a run: Markdown.

use std::fmt::Write as _;

use super::result::{Measure, Run};
use super::row::{Row, Work};
use super::target::{Bound, verdicts};

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

/// The whole report.
pub(super) fn markdown(run: &Run) -> String {
    let mut text = format!(
        "# Locks beside each other\n\nRedis {}, {} processor cores, {} rounds of {} s. All contenders on one \
         server, in turns; each driver is a process of its own. Ratios compare turns of one round; the \
         figure is the median over the rounds.\n",
        run.server_version, run.cores, run.rounds, run.turn_seconds
    );
    text += &targets(run);
    for row in Row::ALL {
        text += &table(run, row);
    }
    text += &contenders(run);
    text
}

/// What one row shows: a line for each contender.
pub(crate) fn table(run: &Run, row: Row) -> String {
    let name = row.to_string();
    let there = |measure| run.figures.iter().any(|it| it.row == name && it.measure == measure);
    if !there(Measure::Rate) {
        return String::new();
    }
    let columns: Vec<_> = COLUMNS.iter().filter(|column| there(column.measure)).collect();
    let mut text = format!("\n## {}\n\n| | ", title(row));
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

fn targets(run: &Run) -> String {
    let verdicts = verdicts(run);
    if verdicts.is_empty() {
        return String::new();
    }
    let mut text =
        "\n## Targets\n\n| row | figure | target | reached | |\n|---|---|---:|---:|---|\n"
            .to_owned();
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
    let mut text = "\n## Contenders\n\n| | version | settings |\n|---|---|---|\n".to_owned();
    for entry in &run.contenders {
        let missing = entry.missing.as_ref().map(|why| format!("**missing**: {why}. "));
        let settings = missing.unwrap_or_default() + &entry.settings;
        let _ = writeln!(text, "| {} | {} | {settings} |", entry.name, entry.version);
    }
    text
}

/// What a row measures.
pub(crate) fn title(row: Row) -> String {
    let Row { work, processes, tasks } = row;
    let who = match (processes, tasks) {
        (1, 1) => "1 task".to_owned(),
        (1, tasks) => format!("{tasks} tasks"),
        (processes, tasks) => format!("{processes} processes with {tasks} tasks each"),
    };
    match work {
        Work::Own if tasks == 1 => format!("A pair of acquire and release, {who}"),
        Work::Own => format!("Own keys: {who}, each with a lock of its own"),
        Work::Hot => format!("Hot key: {who} on one lock"),
        Work::Fair => format!("Fair lock: {who} on one lock"),
        Work::ReadWrite => format!("Read/write lock: {who} on one lock, 90 % reads"),
    }
}

/// With a space between thousands.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn one_digit(value: f64) -> String {
    format!("{value:.1}")
}

fn two_digits(value: f64) -> String {
    format!("{value:.2}")
}

/// Two digits behind the point for small numbers, none for large ones.
fn significant(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::result::tests::run_of;

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
        assert!(markdown(&run).contains("**missing**: `mvn` cannot be run."));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!((significant(0.5), significant(12.34)), ("0.50".into(), "12.3".into()));
        assert_eq!(significant(12_345.6), "12 346");
    }
}
