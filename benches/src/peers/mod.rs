//! This library beside other lock libraries, each in processes of its own, on one server, in turns.
//!
//! `benches/peers` has the drivers of the peers and the protocol that all drivers speak.

mod compare;
mod cpu;
mod drive;
mod process;
mod program;
mod report;
mod result;
mod row;
mod sample;
mod target;
mod trace;

use std::fs;

use self::compare::Comparison;
pub(crate) use self::compare::Plan;
pub(crate) use self::drive::Drive;
pub(crate) use self::program::Contender;
pub(crate) use self::row::Row;
use crate::Result;
use crate::folder;

/// Compares, and writes `bench/peers.json` and `bench/report.md` below the build directory.
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
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("peers.json"), serde_json::to_string_pretty(&run)? + "\n")?;
    let report = report::markdown(&run);
    fs::write(folder.join("report.md"), &report)?;
    println!("{report}");
    println!("figures in {}", folder.display());
    Ok(())
}
