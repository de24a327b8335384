//! The table and the file.

use std::fmt::Write as _;
use std::fs;

use serde::Serialize;

use crate::Result;
use crate::args::Args;
use crate::folder;
use crate::record::{Record, Unit, grouped};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    run: String,
    /// `None` if no case needs a server.
    pub(crate) server_version: Option<String>,
    cores: usize,
    rounds: usize,
    turn_seconds: f64,
    records: Vec<Record>,
}

impl Report {
    pub(crate) fn new(args: &Args) -> Self {
        Self {
            run: args.name.clone(),
            server_version: None,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            rounds: args.timing.rounds,
            turn_seconds: args.timing.turn.as_secs_f64(),
            records: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, records: Vec<Record>) {
        self.records.extend(records);
    }

    /// How many records have a target.
    pub(crate) fn targets(&self) -> usize {
        self.records.iter().filter(|record| record.met.is_some()).count()
    }

    /// How many of these miss it.
    pub(crate) fn missed(&self) -> usize {
        self.records.iter().filter(|record| record.met == Some(false)).count()
    }

    /// A line for each record that misses its target.
    pub(crate) fn misses(&self) -> impl Iterator<Item = String> {
        let missed = self.records.iter().filter(|record| record.met == Some(false));
        missed.filter_map(|record| {
            let Record { case, name, median, .. } = record;
            Some(format!("{case}: {name} {median}, target {}", record.target?))
        })
    }

    /// The table.
    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "{}, {} cores, {} rounds of {} s; ratios are medians over the rounds (lowest to \
             highest)\n",
            self.server_version.as_ref().map_or("no server".into(), |it| format!("Redis {it}")),
            self.cores,
            self.rounds,
            self.turn_seconds
        );
        let mut before: Option<&Record> = None;
        for record in &self.records {
            if before.is_none_or(|before| before.case != record.case) {
                let heading = ["", "", "figure", "ratio to floor", "target", ""];
                let _ = write!(table, "\n{}\n{}", record.case, line(heading));
            }
            let known = before.is_some_and(|b| (&b.case, b.name) == (&record.case, record.name));
            let target = record.target.map(|target| target.to_string()).unwrap_or_default();
            let verdict = record.met.map_or("", |met| if met { "ok" } else { "miss" });
            let name = if known { "" } else { record.name };
            let (figure, ratio) = (figure(record.median, record.unit), ratio(record));
            table += &line([name, record.contender, &figure, &ratio, &target, verdict]);
            before = Some(record);
        }
        table
    }

    /// Writes `bench/<name>.json` under the build directory and returns its path.
    pub(crate) fn write(&self) -> Result<String> {
        let folder = folder::target().join("bench");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{}.json", self.run));
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

fn line(columns: [&str; 6]) -> String {
    let [name, contender, figure, ratio, target, verdict] = columns;
    let text = format!("  {name:<32}{contender:<10}{figure:>12}   {ratio:<22}{target:<9}{verdict}");
    text.trim_end().to_owned() + "\n"
}

fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Micros => format!("{value:.1} µs"),
        Unit::Nanos => format!("{value:.0} ns"),
        Unit::PerSecond => format!("{} /s", grouped(value)),
        Unit::Plain => format!("{value:.3}"),
    }
}

fn ratio(record: &Record) -> String {
    let Some(median) = record.ratio else { return String::new() };
    let low = record.ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = record.ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let digits = if median < 10.0 { 2 } else { 1 };
    format!("{median:.digits$} ({low:.digits$}–{high:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!(figure(70.04, Unit::Micros), "70.0 µs");
        assert_eq!(figure(452_000.4, Unit::PerSecond), "452 000 /s");
        assert_eq!(figure(999.0, Unit::PerSecond), "999 /s");
        assert_eq!(figure(1_000.0, Unit::PerSecond), "1 000 /s");
        assert_eq!(figure(0.0431, Unit::Plain), "0.043");
    }

    #[test]
    fn a_ratio_shows_its_spread() {
        let record = Record::new("pair", "ours", "p50", Unit::Micros, vec![1.1, 1.2, 1.0]);
        assert_eq!(ratio(&record), "");
        assert_eq!(ratio(&record.over(&[1.0, 1.0, 1.0])), "1.10 (1.00–1.20)");
    }
}
