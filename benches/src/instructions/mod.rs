//! Counts the processor instructions of a pair, which, unlike time, hardly differ between machines and runs.
//!
//! Valgrind's callgrind counts them: those of a client that runs in it, or those of a server. Each count comes
//! from two runs that differ in the number of pairs only, so that start and end cancel out.

mod baseline;
mod callgrind;
mod work;

use self::baseline::Baseline;
use self::callgrind::Counted;
pub(crate) use self::work::Load;
use self::work::Who;
use crate::Result;
use crate::record::{Record, Target, Unit};

const CASE: &str = "instructions of a pair, each task with a lock of its own";

/// What is counted, and for how many tasks at a time.
const ROWS: [(&str, Counted, u32); 6] = [
    ("client, 1 task", Counted::Client, 1),
    ("client, 8 tasks", Counted::Client, 8),
    ("client, 64 tasks", Counted::Client, 64),
    ("server, 1 task", Counted::Server, 1),
    ("server, 8 tasks", Counted::Server, 8),
    ("server, 64 tasks", Counted::Server, 64),
];

/// Pairs of the shorter run. The longer one makes three times as many.
const PAIRS: u32 = 1_024;

/// Counts, and compares with the counts on record; with `accept`, puts the new counts on record.
///
/// # Errors
///
/// When valgrind or the server cannot be run, or the counts on record cannot be read or written.
pub(crate) fn run(accept: bool) -> Result<Vec<Record>> {
    let mut baseline = Baseline::read()?;
    let mut records = Vec::new();
    for (name, counted, tasks) in ROWS {
        eprintln!("counting {name} …");
        let mut floor = f64::NAN;
        for who in Who::ALL {
            let count = per_pair(counted, who, tasks)?;
            let record = Record::new(CASE, who.name(), name, Unit::Plain, vec![count]);
            records.push(match who {
                Who::Floor => {
                    floor = count;
                    record
                }
                Who::Peer => record.over(&[floor]),
                Who::Ours if accept => {
                    baseline.set(name, count);
                    record
                }
                // Its bound is on the count.
                Who::Ours => record.target(Target::AtMost(baseline.bound(name))),
            });
        }
    }
    if accept {
        baseline.write()?;
    }
    Ok(records)
}

/// The instructions of one pair.
fn per_pair(counted: Counted, who: Who, tasks: u32) -> Result<f64> {
    let count = |pairs| callgrind::count(counted, Load { who, tasks, pairs });
    let (short, long) = (count(PAIRS)?, count(3 * PAIRS)?);
    Ok(long.saturating_sub(short) as f64 / f64::from(2 * PAIRS))
}
