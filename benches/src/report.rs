//! The tables and the file.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Result;
use crate::record::{Record, Unit, grouped};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// What was measured how.
    pub(crate) conditions: String,
    /// A line for each contender: its version and settings, or why it is missing.
    pub(crate) contenders: Vec<String>,
    pub(crate) records: Vec<Record>,
}

impl Report {
    /// A line for each record that has a target and meets it, or misses it.
    pub(crate) fn verdicts(&self, met: bool) -> impl Iterator<Item = String> {
        let verdicts = self.records.iter().filter(move |record| record.met == Some(met));
        verdicts.filter_map(|Record { case, name, contender, ratio, median, target, .. }| {
            let value = ratio.unwrap_or(*median);
            Some(format!("{case}: {name}, {contender}: {value:.3}, target {}", (*target)?))
        })
    }

    /// The report in Markdown: a table for each case, with a line for each contender; then targets, then contenders.
    pub(crate) fn markdown(&self) -> String {
        let mut text = self.conditions.clone() + "\n";
        let mut cases: Vec<&str> = self.records.iter().map(|it| it.case.as_str()).collect();
        cases.dedup();
        for case in cases {
            let records = || self.records.iter().filter(|it| it.case == case);
            let (mut names, mut contenders) = (Vec::new(), Vec::new());
            for Record { name, contender, .. } in records() {
                names.extend((!names.contains(name)).then_some(*name));
                contenders.extend((!contenders.contains(contender)).then_some(*contender));
            }
            let (heading, rule) = (names.join(" | "), "---:|".repeat(names.len()));
            let _ = write!(text, "\n## {case}\n\n| | {heading} |\n|---|{rule}\n");
            for contender in contenders {
                let cell = |name: &&str| {
                    let record = records().find(|it| (it.contender, it.name) == (contender, *name));
                    record.map(figure).unwrap_or_default()
                };
                let cells: Vec<_> = names.iter().map(cell).collect();
                let _ = writeln!(text, "| {contender} | {} |", cells.join(" | "));
            }
        }
        text += "\n";
        self.verdicts(true).for_each(|verdict| text += &format!("- ok: {verdict}\n"));
        self.verdicts(false).for_each(|verdict| text += &format!("- missed: {verdict}\n"));
        self.contenders.iter().for_each(|contender| text += &format!("- {contender}\n"));
        text
    }

    /// Writes `bench/<name>.json`, and the same as Markdown, under the build directory, and returns their path without its end.
    pub(crate) fn write(&self, name: &str) -> Result<String> {
        let path = target().join("bench").join(name);
        fs::create_dir_all(target().join("bench"))?;
        fs::write(path.with_extension("json"), serde_json::to_string_pretty(self)? + "\n")?;
        fs::write(path.with_extension("md"), self.markdown())?;
        Ok(path.display().to_string())
    }
}

/// The folder that cargo builds in.
pub(crate) fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    workspace.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The median, and the ratio with the lowest and the highest of the rounds.
fn figure(record: &Record) -> String {
    let Record { median, ratio, ratios, .. } = record;
    let figure = match record.unit {
        Unit::Micros => format!("{median:.1} µs"),
        Unit::Nanos => format!("{median:.0} ns"),
        Unit::PerSecond => grouped(*median),
        Unit::Plain if *median < 100.0 => format!("{median:.3}"),
        Unit::Plain => grouped(*median),
    };
    let Some(ratio) = ratio else { return figure };
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{figure}, {ratio:.2} × ({low:.2}–{high:.2})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable_and_a_ratio_shows_its_spread() {
        let record = |unit, sample| Record::new("pair", "ours", "p50", unit, vec![sample; 3]);
        assert_eq!(figure(&record(Unit::Micros, 70.04)), "70.0 µs");
        assert_eq!(figure(&record(Unit::PerSecond, 452_000.4)), "452 000");
        assert_eq!(figure(&record(Unit::Plain, 0.0431)), "0.043");
        let ratio = record(Unit::Nanos, 12.0).over(&[10.0, 12.0, 11.0]);
        assert_eq!(figure(&ratio), "12 ns, 1.09 × (1.00–1.20)");
    }
}
