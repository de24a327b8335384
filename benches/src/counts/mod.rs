//! Counts what a pair of acquire and release costs. Unlike time, counts hardly differ between machines and runs.
//!
//! Valgrind's callgrind counts the instructions, allocations and system calls of a client that runs in it, and the
//! instructions of a server that does; servers count commands and reads themselves. Each count comes from two runs
//! that differ in the number of pairs only, so that start and end cancel out. Where one of them runs in callgrind,
//! client and server run in turns, by a [relay], so that a busy machine counts the same.

mod baseline;
mod callgrind;
mod load;
mod relay;
mod servers;

use lock_tests::{RedisCluster, RedisServer};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use self::baseline::{Baseline, rounded};
pub(crate) use self::load::Load;
use self::load::{Locks, Who};
use self::servers::{Served, Servers};
use crate::Result;
use crate::case::Call;
use crate::record::{Record, Target, Unit};

/// How often a count is repeated that is to go on record, or that is above its bound. Chance alone does not
/// keep a count above it that often.
const REPETITIONS: usize = 4;

/// How far a count may be above the one on record, as a part of it. Libraries take other instructions on another processor, which
/// made up to 5 % ("nested" and "load"), and chance makes as much: the client's instructions of the hot key were 6 % apart in four
/// runs of one program, those of a layer, which are the difference of two counts, 4 %, and those of a cluster, whose servers share
/// no [relay], 3 % in two runs that had other work beside them.
const TOLERANCE: f64 = 0.1;

/// How many more system calls, and reads by the server, a pair may cost than on record. Where requests share them, a pair
/// costs a tenth of one, more or less by how many answers come at once; without sharing it would cost two and more.
const SYSTEM_CALLS: f64 = 0.1;
const READS: f64 = 0.02;

/// The same for allocations: a pair that makes one more makes a whole one. On a slow machine a timer's fall into the longer run.
const ALLOCATIONS: f64 = 0.05;

/// The same for reads of the clock: one more shows as 1. On a busy machine answers come one by one, and each has a time.
const CLOCK_READS: f64 = 0.5;

/// How much longer the second run is.
const LONGER: u32 = 3;

/// A cost of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    ClientInstructions,
    Allocations,
    SystemCalls,
    ClockReads,
    Commands,
    Reads,
    ServerInstructions,
}

impl Count {
    fn name(self) -> &'static str {
        match self {
            Self::ClientInstructions => "client instructions",
            Self::Allocations => "allocations",
            Self::SystemCalls => "system calls",
            Self::ClockReads => "clock reads",
            Self::Commands => "commands",
            Self::Reads => "reads by the server",
            Self::ServerInstructions => "server instructions",
        }
    }
}

/// A load, and what is counted of it.
struct Row {
    name: &'static str,
    locks: Locks,
    tasks: u32,
    /// Pairs of the shorter run.
    pairs: u32,
    /// Whether the instructions of the server are counted, which takes longest.
    server: bool,
    /// The most commands of a pair, whatever is on record.
    most_commands: f64,
}

impl Row {
    const fn new(name: &'static str, locks: Locks, tasks: u32, pairs: u32) -> Self {
        let most_commands = match locks {
            Locks::Own | Locks::Read | Locks::Spread => f64::INFINITY,
            Locks::Shared | Locks::Kept => 0.05,
            Locks::Nested | Locks::InMemory(_) | Locks::Configured => 0.0,
        };
        Self { name, locks, tasks, pairs, server: false, most_commands }
    }

    const fn with_server(self) -> Self {
        Self { server: true, ..self }
    }
}

/// A call of so many in memory, without what the same call by hand costs.
const fn in_memory(name: &'static str, call: Call, pairs: u32) -> Row {
    Row::new(name, Locks::InMemory(call), 1, pairs)
}

const ROWS: [Row; 12] = [
    Row::new("pair, 1 task", Locks::Own, 1, 256).with_server(),
    Row::new("own keys, 64 tasks", Locks::Own, 64, 1024).with_server(),
    Row::new("hot key, 64 tasks", Locks::Shared, 64, 2048),
    Row::new("hot key, 512 tasks", Locks::Shared, 512, 2048),
    Row::new("read, 1 task", Locks::Read, 1, 256),
    Row::new("nested", Locks::Nested, 1, 512),
    Row::new("cluster, 64 tasks", Locks::Spread, 64, 1024),
    // The least of all counts, which what happens by chance disturbs most.
    in_memory("attribute, beyond by hand", Call::Attribute, 1024),
    in_memory("layer, beyond by hand", Call::Layer, 256),
    in_memory("layer, http, beyond by hand", Call::HttpLayer, 256),
    in_memory("layer, routes, beyond by hand", Call::RoutesLayer, 256),
    // A pair is one configuration here.
    Row::new("load", Locks::Configured, 1, 1),
];

/// The rows that are compared with other contenders.
const BESIDE: [Row; 3] = [
    Row::new("pair, 1 task", Locks::Own, 1, 256).with_server(),
    Row::new("own keys, 8 tasks", Locks::Own, 8, 512).with_server(),
    Row::new("own keys, 64 tasks", Locks::Own, 64, 1024).with_server(),
];

/// Has this process, and those that it starts, use one core only. How many requests to a cluster share a batch then depends less
/// on the machine: its servers run when the client has nothing left to send. One server has a [relay].
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn use_one_core() -> Result<()> {
    let usable = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|core| usable.is_set(*core));
    let mut one = CpuSet::new();
    one.set(first.ok_or("the system names no core that this process may use")?);
    Ok(sched_setaffinity(None, &one)?)
}

/// Counts, and compares with the counts on record; with `accept`, puts the new counts on record.
///
/// # Errors
///
/// When valgrind or the server cannot be run, or the counts on record cannot be read or written.
pub(crate) async fn run(accept: bool) -> Result<Vec<Record>> {
    let mut baseline = Baseline::read()?;
    let one = Servers::One(Box::new(RedisServer::start().await));
    let cluster = Servers::Cluster(RedisCluster::start().await);
    let mut records = Vec::new();
    for row in &ROWS {
        eprintln!("counting {} …", row.name);
        let servers = if row.locks == Locks::Spread { &cluster } else { &one };
        records.extend(ours(row, servers, &mut baseline, accept).await?);
    }
    if accept {
        baseline.write()?;
    }
    Ok(records)
}

/// Counts the same for the bare commands and for another library, and compares ours with the goals.
///
/// # Errors
///
/// When valgrind or the server cannot be run.
pub(crate) async fn beside() -> Result<Vec<Record>> {
    let server = Servers::One(Box::new(RedisServer::start().await));
    let mut records = Vec::new();
    for row in &BESIDE {
        let case = format!("counts of a pair: {}", row.name);
        let mut of_row = Vec::new();
        let mut floor = Vec::new();
        for who in Who::ALL {
            eprintln!("counting {}, {} …", row.name, who.name());
            let costs = costs(*who, row, &server).await?;
            if *who == Who::Floor {
                floor.clone_from(&costs);
            }
            for ((count, cost), (_, floor)) in costs.iter().zip(&floor) {
                let record = plain(&case, *who, *count, vec![*cost]);
                of_row.push(match (who, goal(row, *count)) {
                    (Who::Floor, _) => record,
                    // The goal is for the count, not for its ratio.
                    (Who::Ours, Some(goal)) => record.target(Target::AtMost(goal)),
                    _ => record.over(&[*floor]),
                });
            }
        }
        // The contenders of one count next to each other; the sort keeps their order.
        let counts: Vec<&str> = of_row.iter().map(|record: &Record| record.name).collect();
        of_row.sort_by_key(|record| counts.iter().position(|name| *name == record.name));
        records.extend(of_row);
    }
    Ok(records)
}

/// What a pair of ours may cost where many meet.
fn goal(row: &Row, count: Count) -> Option<f64> {
    match count {
        Count::ClientInstructions if row.tasks >= 64 => Some(15_000.0),
        Count::Allocations if row.tasks >= 64 => Some(6.0),
        // Fewer tasks make no batches.
        Count::ServerInstructions if row.tasks >= 64 => Some(65_000.0),
        _ => None,
    }
}

/// The records of a row. Counts that are above their bounds are taken again, and the lowest counts.
async fn ours(
    row: &Row,
    servers: &Servers,
    baseline: &mut Baseline,
    accept: bool,
) -> Result<Vec<Record>> {
    let case = format!("counts of a pair: {}", row.name);
    let mut rounds: Vec<Vec<(Count, f64)>> = Vec::new();
    loop {
        rounds.push(costs(Who::Ours, row, servers).await?);
        let samples = |at: usize| rounds.iter().map(|round| round[at].1).collect::<Vec<_>>();
        let counts = rounds[0].iter().enumerate().map(|(at, (count, _))| (*count, samples(at)));
        let record = |(count, samples): (Count, Vec<f64>)| {
            let record = |samples| plain(&case, Who::Ours, count, samples);
            if accept {
                return record(samples);
            }
            let lowest = samples.into_iter().fold(f64::INFINITY, f64::min);
            record(vec![lowest]).target(Target::AtMost(bound(row, count, baseline)))
        };
        let records: Vec<Record> = counts.map(record).collect();
        let is_over = records.iter().any(|record| record.met == Some(false));
        if rounds.len() < REPETITIONS && (accept || is_over) {
            continue;
        }
        if accept {
            records.iter().for_each(|it| baseline.set(row.name, it.name, it.median));
        }
        return Ok(records);
    }
}

fn plain(case: &str, who: Who, count: Count, samples: Vec<f64>) -> Record {
    Record::new(case, who.name(), count.name(), Unit::Plain, samples)
}

/// The highest count that is no regression; zero for one that is not on record.
fn bound(row: &Row, count: Count, baseline: &Baseline) -> f64 {
    let on_record = baseline.get(row.name, count.name()).unwrap_or_default();
    // What a layer costs beyond code by hand may be less than nothing.
    let bound = on_record + on_record.abs() * TOLERANCE;
    rounded(match count {
        Count::SystemCalls => bound + SYSTEM_CALLS,
        Count::Reads => bound + READS,
        Count::Allocations => bound + ALLOCATIONS,
        Count::ClockReads => bound + CLOCK_READS,
        Count::Commands => bound.min(row.most_commands),
        _ => bound,
    })
}

/// All costs of one pair.
async fn costs(who: Who, row: &Row, servers: &Servers) -> Result<Vec<(Count, f64)>> {
    let Row { locks, tasks, .. } = *row;
    if let Some([instructions, allocations]) = in_process(locks, row.pairs)? {
        let allocations = (Count::Allocations, allocations);
        return Ok(vec![(Count::ClientInstructions, instructions), allocations]);
    }
    let load = |pairs, urls| Load { who, locks, tasks, pairs, slowed: false, urls };
    let (short, long) = (row.pairs, LONGER * row.pairs);
    let a_pair = |short: u64, long: u64| {
        long.saturating_sub(short) as f64 / f64::from((LONGER - 1) * row.pairs)
    };
    let client = |pairs| callgrind::count_client(&load(pairs, servers.urls()));
    let (first, second) = (client(short)?, client(long)?);
    // Tasks hand a lock on for a limited time, in which a busy machine does less; and at most once for each microsecond that
    // their hold lasted, so a fast machine does less, too.
    let (slowed, locks) = match locks {
        Locks::Shared => (true, Locks::Kept),
        locks => (false, locks),
    };
    let served =
        async |pairs| served(&Load { slowed, locks, ..load(pairs, servers.urls()) }, servers).await;
    let (before, after) = (served(short).await?, served(long).await?);
    let mut costs = vec![
        (Count::ClientInstructions, a_pair(first.instructions, second.instructions)),
        (Count::Allocations, a_pair(first.allocations, second.allocations)),
        (Count::SystemCalls, a_pair(first.system_calls, second.system_calls)),
        (Count::ClockReads, a_pair(first.clock_reads, second.clock_reads)),
        (Count::Commands, a_pair(before.commands, after.commands)),
        (Count::Reads, a_pair(before.reads, after.reads)),
    ];
    if row.server {
        let server = |pairs| callgrind::count_server(&load(pairs, Vec::new()));
        costs.push((Count::ServerInstructions, a_pair(server(short)?, server(long)?)));
    }
    Ok(costs)
}

/// The instructions and allocations of a load without a server: of a call in memory, those beyond the same call by hand.
/// Such a load has no system calls of its own.
fn in_process(locks: Locks, pairs: u32) -> Result<Option<[f64; 2]>> {
    Ok(match locks {
        Locks::InMemory(call) => {
            let [instructions, allocations] = each(locks, pairs)?;
            let [least, fewest] = each(Locks::InMemory(call.by_hand()), pairs)?;
            Some([instructions - least, allocations - fewest])
        }
        Locks::Configured => Some(each(locks, pairs)?),
        Locks::Own | Locks::Shared | Locks::Kept | Locks::Read | Locks::Nested | Locks::Spread => {
            None
        }
    })
}

/// The instructions and allocations of each repetition.
fn each(locks: Locks, pairs: u32) -> Result<[f64; 2]> {
    let count = |pairs| {
        let (who, urls) = (Who::Ours, Vec::new());
        callgrind::count_client(&Load { who, locks, tasks: 1, pairs, slowed: false, urls })
    };
    let (short, long) = (count(pairs)?, count(LONGER * pairs)?);
    let more = |count: fn(&callgrind::Counted) -> u64| {
        (count(&long) as f64 - count(&short) as f64) / f64::from((LONGER - 1) * pairs)
    };
    Ok([more(|it| it.instructions), more(|it| it.allocations)])
}

/// What the servers count while a load runs, outside of callgrind.
async fn served(load: &Load, servers: &Servers) -> Result<Served> {
    let before = servers.served().await;
    callgrind::run_alone(load)?;
    let after = servers.served().await;
    Ok(Served { commands: after.commands - before.commands, reads: after.reads - before.reads })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_on_record_is_within_its_bound() {
        let (row, count) = (Row::new("row", Locks::Own, 1, 1), Count::Allocations);
        for on_record in [-1.0, 0.0, 0.03, 22_100.0] {
            let mut baseline = Baseline::default();
            baseline.set(row.name, count.name(), on_record);
            assert!(on_record <= bound(&row, count, &baseline), "{on_record}");
        }
    }
}
