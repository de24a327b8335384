//! Many tasks, each with a lock of its own, over one connection.

use std::time::Duration;

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::bench::Bench;
use crate::server::contender::Contender;
use crate::server::drive::apart;
use crate::server::turns::{Turn, beside, turns};

const CASE: &str = "own-keys: 64 tasks, each takes a lock of its own and gives it back";
const TASKS: usize = 64;

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let turn = bench.timing.turn;
    let mut rates = [(); 3].map(|()| Vec::new());
    for round in 0..bench.timing.rounds {
        for next in turns(round) {
            rates[next as usize].push(match next {
                Turn::Floor => rate(|name| bench.bare(name), turn).await?,
                Turn::Ours => rate(|name| bench.ours(name), turn).await?,
                Turn::Peer => rate(|name| bench.peer(name), turn).await?,
            });
        }
    }
    Ok(beside(CASE, "pairs", Unit::PerSecond, rates, Some(Target::AtLeast(0.85))).into())
}

async fn rate<C: Contender>(lock: impl Fn(&str) -> C, turn: Duration) -> Result<f64> {
    let locks = (0..TASKS).map(|task| lock(&format!("own:{task}"))).collect();
    Ok(apart(locks, turn).await?.rate())
}
