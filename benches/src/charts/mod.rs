//! Charts of runs: bars beside other libraries, and curves.

mod bars;
mod canvas;
mod curves;

use std::path::Path;

use self::bars::{Bar, Bars, Group};
use self::curves::{Curves, Line};
use crate::Result;
use crate::peers::result::{Measure, Run};
use crate::peers::row::{Row, Work};
use crate::peers::text::who;
use crate::record::grouped;

/// A chart with bars: file, title, rows, whether it is logarithmic.
const BARS: [(&str, &str, &[Row], bool); 4] = [
    ("own-keys", "64 tasks, each with a lock of its own", &[Row::of(Work::Own, 1, 64)], false),
    (
        "hot-key",
        "Tasks on one lock",
        &[
            Row::of(Work::Hot, 1, 8),
            Row::of(Work::Hot, 1, 64),
            Row::of(Work::Hot, 1, 512),
            Row::of(Work::Hot, 4, 16),
        ],
        true,
    ),
    (
        "fair",
        "Tasks on one fair lock",
        &[Row::of(Work::Fair, 1, 8), Row::of(Work::Fair, 1, 64), Row::of(Work::Fair, 4, 16)],
        false,
    ),
    (
        "read-write",
        "Tasks on one read/write lock, 90 % reads",
        &[Row::of(Work::ReadWrite, 1, 64), Row::of(Work::ReadWrite, 4, 16)],
        false,
    ),
];

/// Draws the bars of a comparison. Returns file names and titles.
///
/// # Errors
///
/// When a file cannot be written.
pub(crate) fn compared(run: &Run, folder: &Path) -> Result<Vec<(String, String)>> {
    let mut drawn = Vec::new();
    let mut draw = |name: &str, bars: Bars| -> Result<()> {
        if bars.groups.iter().any(|group| !group.bars.is_empty()) {
            bars.draw(&folder.join(format!("{name}.svg")))?;
            drawn.push((format!("{name}.svg"), bars.title.to_owned()));
        }
        Ok(())
    };
    draw("pair", pair(run))?;
    for (name, title, rows, logarithmic) in BARS {
        let scale = if logarithmic { "; logarithmic" } else { "" };
        let heading = |row: Row| if rows.len() > 1 { who(row) } else { String::new() };
        let groups = rows.iter().map(|row| group(run, *row, Measure::Rate, heading(*row), rate));
        let groups = groups.filter(|group| !group.bars.is_empty()).collect();
        let subtitle = format!("Pairs of acquire and release a second (more is better{scale})");
        draw(name, Bars { title, subtitle, logarithmic, groups })?;
    }
    Ok(drawn)
}

fn pair(run: &Run) -> Bars {
    let row = Row::of(Work::Own, 1, 1);
    let groups =
        vec![group(run, row, Measure::P50, String::new(), |value| format!("{value:.0} µs"))];
    let subtitle = "Median time in µs (less is better)".to_owned();
    let title = "One task acquires a lock and releases it";
    Bars { title, subtitle, logarithmic: false, groups }
}

fn group(run: &Run, row: Row, measure: Measure, heading: String, text: fn(f64) -> String) -> Group {
    let row = row.to_string();
    let bar = |name: &String| {
        let value = run.median(&row, name, measure)?;
        Some(Bar { name: name.clone(), value, text: text(value) })
    };
    let names = run.contenders.iter().map(|entry| &entry.name);
    let bars = names.filter(|name| *name != "PING").filter_map(bar).collect();
    Group { heading, bars }
}

fn rate(value: f64) -> String {
    grouped(value)
}

/// Draws the curves of a comparison over numbers of tasks and processes. Returns file names and titles.
///
/// # Errors
///
/// When a file cannot be written.
pub(crate) fn grown(run: &Run, folder: &Path) -> Result<Vec<(String, String)>> {
    let one_process =
        |row: &Row, work| row.work == work && row.processes == 1 && row.hold.is_zero();
    let charts = [
        (
            "keys",
            "Tasks, each with a lock of its own",
            "tasks, and locks",
            lines(run, Measure::Rate, |row| one_process(&row, Work::Own).then_some(row.tasks)),
        ),
        (
            "waiters",
            "Tasks that wait for one lock",
            "tasks",
            lines(run, Measure::Rate, |row| one_process(&row, Work::Hot).then_some(row.tasks)),
        ),
        (
            "processes",
            "Processes with 16 tasks each on one lock",
            "processes",
            lines(run, Measure::Rate, |row| {
                (row.work == Work::Hot && row.tasks == 16).then_some(row.processes)
            }),
        ),
    ];
    let mut drawn = Vec::new();
    for (name, title, x, lines) in charts {
        if lines.iter().any(|line| line.points.len() > 1) {
            let y = "pairs of acquire and release a second";
            Curves { title, x, y, lines }.draw(&folder.join(format!("{name}.svg")))?;
            drawn.push((format!("{name}.svg"), title.to_owned()));
        }
    }
    Ok(drawn)
}

/// A line for each contender, through the rows that have a place on the axis.
fn lines(run: &Run, measure: Measure, place: impl Fn(Row) -> Option<usize>) -> Vec<Line> {
    let names = run.contenders.iter().map(|entry| &entry.name);
    let line = |name: &String| {
        let of = |figure: &&crate::peers::result::Figure| {
            &figure.contender == name && figure.measure == measure
        };
        let mut points: Vec<_> = run
            .figures
            .iter()
            .filter(of)
            .filter_map(|figure| Some((place(figure.row.parse().ok()?)? as f64, figure.median())))
            .filter(|point| point.1 > 0.0)
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Line { name: name.clone(), points }
    };
    names.filter(|name| *name != "PING").map(line).filter(|line| !line.points.is_empty()).collect()
}

/// A figure of the other benchmarks over the number of locks held: contender's part, locks, percent of a core.
pub(crate) type Load = (String, f64, f64);

/// Draws the load of many held locks. Returns the file name and the title.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn held(loads: &[Load], folder: &Path) -> Result<Option<(String, String)>> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, locks, percent) in loads.iter().filter(|load| load.2 > 0.0) {
        match lines.iter_mut().find(|line| line.name == *name) {
            Some(line) => line.points.push((*locks, *percent)),
            None => lines.push(Line { name: name.clone(), points: vec![(*locks, *percent)] }),
        }
    }
    if lines.iter().all(|line| line.points.len() < 2) {
        return Ok(None);
    }
    let title = "Locks held and renewed";
    let (x, y) = ("locks", "% of a processor core");
    Curves { title, x, y, lines }.draw(&folder.join("holds.svg"))?;
    Ok(Some(("holds.svg".to_owned(), title.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::result::run_of;

    #[test]
    fn charts_show_every_contender() {
        let run = run_of(&[
            ("hot-8", "ours", &[400_000.0]),
            ("hot-64", "ours", &[300_000.0]),
            ("hot-8", "rslock", &[7_000.0]),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let drawn = compared(&run, folder.path()).unwrap();
        assert_eq!(drawn, [("hot-key.svg".to_owned(), "Tasks on one lock".to_owned())]);
        let svg = std::fs::read_to_string(folder.path().join("hot-key.svg")).unwrap();
        for text in ["8 tasks", "64 tasks", "ours", "rslock", "400 000", "prefers-color-scheme"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(grown(&run, folder.path()).unwrap().len(), 1);
    }

    #[test]
    fn loads_become_a_curve() {
        let folder = tempfile::tempdir().unwrap();
        let load = |locks, percent| ("client".to_owned(), locks, percent);
        assert!(held(&[load(1e3, 0.1)], folder.path()).unwrap().is_none());
        assert!(held(&[load(1e3, 0.1), load(1e5, 3.0)], folder.path()).unwrap().is_some());
    }
}
