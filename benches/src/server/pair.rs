//! An uncontended lock, by one task: the cost of acquire and release beyond two round trips.

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::awake::Awake;
use crate::server::bench::Bench;
use crate::server::contender::{Contender, Ours, Ping};
use crate::server::drive::{Latencies, alone};
use crate::server::turns::{Turn, beside, turns};
use crate::timing::Timing;

const CASE: &str = "pair: one task takes a lock and gives it back";

/// The figures of one contender's turns, in µs.
#[derive(Default)]
struct Figures {
    p50: Vec<f64>,
    p99: Vec<f64>,
    mean: Vec<f64>,
}

impl Figures {
    fn add(&mut self, latencies: &Latencies) {
        self.p50.push(latencies.quantile(0.50));
        self.p99.push(latencies.quantile(0.99));
        self.mean.push(latencies.mean());
    }
}

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let Timing { rounds, turn, .. } = bench.timing.finer();
    let _awake = Awake::keep();
    let mut ping = Vec::new();
    let [mut floor, mut ours, mut peer] = [(); 3].map(|()| Figures::default());
    for round in 0..rounds {
        ping.push(alone(Ping(bench.bare("pair")), turn / 4).await?.quantile(0.50));
        for next in turns(round) {
            match next {
                Turn::Floor => floor.add(&alone(bench.bare("pair"), turn).await?),
                Turn::Ours => ours.add(&alone(bench.ours("pair"), turn).await?),
                Turn::Peer => peer.add(&alone(bench.peer("pair"), turn).await?),
            }
        }
    }
    let beyond = ours.p50.iter().zip(&floor.p50).map(|(ours, floor)| ours - floor).collect();
    let beyond = Record::new(CASE, Ours::NAME, "p50 beyond the floor", Unit::Micros, beyond);
    let target = Some(Target::AtMost(1.05));
    let mut records = vec![Record::new(CASE, Ping::NAME, "round trip, p50", Unit::Micros, ping)];
    records.extend(beside(
        CASE,
        "pair, p50",
        Unit::Micros,
        [floor.p50, ours.p50, peer.p50],
        target,
    ));
    records.push(beyond);
    records.extend(beside(CASE, "mean", Unit::Micros, [floor.mean, ours.mean, peer.mean], None));
    records.extend(beside(CASE, "p99", Unit::Micros, [floor.p99, ours.p99, peer.p99], None));
    Ok(records)
}
