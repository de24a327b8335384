//! This library beside other lock libraries, each in processes of its own, on one server, in turns.
//!
//! `benches/peers` has the drivers of the peers and the protocol that all drivers speak.

mod compare;
mod cpu;
mod drive;
mod process;
mod program;
pub(crate) mod report;
pub(crate) mod result;
pub(crate) mod row;
mod sample;
mod target;
pub(crate) mod text;
mod trace;

use std::fs;
use std::path::Path;

use self::compare::Comparison;
pub(crate) use self::compare::Plan;
pub(crate) use self::drive::Drive;
pub(crate) use self::program::Contender;
use crate::Result;
use crate::folder;

/// Compares, and writes `bench/peers.json`, `bench/report.md` and its charts below the build directory; of curves,
/// only `bench/curves.json` and the charts.
///
/// # Errors
///
/// When this library fails or breaks exclusion, or the files cannot be written.
pub(crate) async fn run(plan: &Plan) -> Result<()> {
    let mut comparison = Comparison::start(plan).await?;
    for (at, row) in plan.rows.iter().enumerate() {
        eprintln!("measuring {row} …");
        comparison.measure(at, *row, plan.timing).await?;
    }
    let run = comparison.finish(plan).await;
    let folder = folder::target().join("bench");
    fs::create_dir_all(folder.join("charts"))?;
    fs::write(folder.join(plan.file), serde_json::to_string_pretty(&run)? + "\n")?;
    let report = report::markdown(&run, &charts(plan, &run, &folder)?);
    if !plan.is_curves() {
        fs::write(folder.join("report.md"), &report)?;
    }
    println!("{report}\nfigures in {}", folder.join(plan.file).display());
    Ok(())
}

fn charts(plan: &Plan, run: &result::Run, folder: &Path) -> Result<Vec<(String, String)>> {
    let folder = folder.join("charts");
    match plan.is_curves() {
        true => crate::charts::grown(run, &folder),
        false => crate::charts::compared(run, &folder),
    }
}
