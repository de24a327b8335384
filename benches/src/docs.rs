//! The pages on performance: charts and tables from the files of the last runs.
//!
//! `docs/*.md` have blocks `<!-- run: NAME -->` … `<!-- end -->`, which this replaces.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::charts::{self, Load};
use crate::peers::report;
use crate::peers::result::{Measure, Run};
use crate::peers::text::significant;
use crate::record::grouped;
use crate::{Result, folder};

const PAGES: [&str; 2] = ["performance.md", "scale.md"];

const START: &str = "<!-- run: ";
const END: &str = "<!-- end -->";

/// The records of the other benchmarks, as far as they are charted.
#[derive(Deserialize)]
struct Records {
    records: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    case: String,
    name: String,
    /// Null in the file if there was nothing to measure.
    median: Option<f64>,
}

/// Writes `docs/charts` and fills the blocks.
///
/// # Errors
///
/// When no comparison has run, a block has an unknown name, or a file cannot be written.
pub(crate) fn write() -> Result<()> {
    let results = folder::target().join("bench");
    let compared: Run = read(&results.join("peers.json"))
        .ok_or("there is no bench/peers.json: run `cargo xtask bench --peers` first")?;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let folder = docs.join("charts");
    fs::create_dir_all(&folder)?;
    charts::compared(&compared, &folder)?;
    if let Some(grown) = read::<Run>(&results.join("curves.json")) {
        charts::grown(&grown, &folder)?;
    }
    charts::held(&loads(&results), &folder)?;
    for page in PAGES {
        let path = docs.join(page);
        let text = filled(&fs::read_to_string(&path)?, |name| block(&compared, name))?;
        fs::write(path, text)?;
        println!("filled docs/{page}");
    }
    Ok(())
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// The load of held locks, out of a run of all cases or of that case: `holds: 1000 locks, …`.
fn loads(results: &Path) -> Vec<Load> {
    let files = ["full-holds.json", "full.json", "quick-holds.json", "quick.json"];
    let runs = files.iter().filter_map(|file| read::<Records>(&results.join(file)));
    let load = |record: &Record| {
        let (locks, _) = record.case.strip_prefix("holds: ")?.split_once(' ')?;
        let who = record.name.strip_suffix(", % of a core")?;
        Some((who.to_owned(), locks.parse().ok()?, record.median?))
    };
    let mut loads = runs.map(|run| run.records.iter().filter_map(load).collect::<Vec<_>>());
    loads.find(|loads| !loads.is_empty()).unwrap_or_default()
}

/// The text of a block.
fn block(run: &Run, name: &str) -> Option<String> {
    match name {
        "machine" => Some(report::conditions(run)),
        "targets" => Some(report::targets(run)),
        "contenders" => Some(report::contenders(run)),
        "cost" => Some(cost(run)),
        row => Some(report::table(run, row.parse().ok()?)),
    }
}

/// Rows of one lock each, whose pairs a server has to serve: row, contender, what it is.
const COSTS: [(&str, &str, &str); 5] = [
    ("own-1", "floor", "the two scripts, one request at a time"),
    ("own-1", "ours", "one task: one request at a time"),
    ("own-64", "floor", "the two scripts, 64 tasks"),
    ("own-64", "ours", "64 tasks: requests share scripts"),
    ("hot-64", "ours", "64 tasks on one lock: hand-offs inside the process"),
];

/// What a pair costs the server, and what follows for many.
fn cost(run: &Run) -> String {
    let mut text = "| | server CPU a pair, µs | pairs a second that fill one core | cores for a million a second |\n\
                    |---|---:|---:|---:|\n"
        .to_owned();
    for (row, contender, what) in COSTS {
        let Some(cpu) = run.median(row, contender, Measure::ServerCpu) else { continue };
        let (a_second, cores) = (grouped(1e6 / cpu), significant(cpu));
        text += &format!("| {what} | {} | {a_second} | {cores} |\n", significant(cpu));
    }
    text
}

/// The page with its blocks filled.
fn filled(page: &str, block: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(START) {
        let (name, after) = after.split_once(" -->").ok_or("a block has no name")?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("`{name}` has no end"))?;
        let content = block(name).ok_or_else(|| format!("there is no block `{name}`"))?;
        text += &format!("{before}{START}{name} -->\n{}\n{END}", content.trim());
        rest = after;
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_replaced_and_the_rest_stays() {
        let page = "a\n<!-- run: x -->\nold\n<!-- end -->\nb\n<!-- run: y --><!-- end -->";
        let fill = |name: &str| (name != "z").then(|| format!("new {name}\n"));
        let new =
            "a\n<!-- run: x -->\nnew x\n<!-- end -->\nb\n<!-- run: y -->\nnew y\n<!-- end -->";
        assert_eq!(filled(page, fill).unwrap(), new);
        assert_eq!(filled(new, fill).unwrap(), new);
        assert!(filled("<!-- run: z --><!-- end -->", fill).is_err());
        assert!(filled("<!-- run: x -->", fill).is_err());
    }
}
