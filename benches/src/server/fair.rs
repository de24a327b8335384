//! A fair mutex: grants of a crowd that queues in the store, and the server's work for a grant behind a short queue and
//! behind a long one.

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::awake::Awake;
use crate::server::bench::Bench;
use crate::server::contender::{Contender, OursFair};
use crate::server::drive::{alone, contend};

/// Tasks. Their grants are compared with Redisson's, in one run, by `--peers`.
const CROWDS: [usize; 2] = [8, 64];

/// The lengths of the queues that are compared.
const QUEUES: [usize; 2] = [100, 10_000];

/// The server's work for a grant behind the long queue, compared with the short one.
const MORE_WORK: f64 = 1.3;

/// These turns are longer by this factor: see the hot key.
const LONGER: u32 = 2;

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for tasks in CROWDS {
        records.extend(crowd(bench, tasks).await?);
    }
    records.extend(queues(bench).await?);
    Ok(records)
}

async fn crowd(bench: &Bench, tasks: usize) -> Result<Vec<Record>> {
    let case = format!("fair, {tasks} tasks: all take the same fair mutex and give it back");
    let [mut grants, mut floor, mut evenness, mut commands, mut scripts] =
        [(); 5].map(|()| Vec::new());
    for _ in 0..bench.timing.rounds {
        let before = floor_pair(bench).await?;
        let calls = bench.commands().await;
        let crowd = contend(bench.fair("fair"), tasks, bench.timing.turn * LONGER).await?;
        let after = bench.commands().await;
        let (fewest, most) = crowd.extremes();
        let all = crowd.with_drain as f64;
        grants.push(crowd.rate());
        floor.push(1e6 / f64::midpoint(before, floor_pair(bench).await?));
        evenness.push(fewest / most);
        commands.push(after.all_since(&calls) as f64 / all);
        scripts.push(after.since(&calls, "evalsha") as f64 / all);
    }
    let ours = |name, unit, samples| Record::new(&case, OursFair::NAME, name, unit, samples);
    Ok(vec![
        ours("grants", Unit::PerSecond, grants).over(&floor),
        ours("fewest ÷ most", Unit::Plain, evenness).target(Target::AtLeast(0.9)),
        ours("commands per grant", Unit::Plain, commands),
        ours("EVALSHA per grant", Unit::Plain, scripts),
    ])
}

/// The server's processor time for a grant, its place in the queue and its signs of life included.
async fn queues(bench: &Bench) -> Result<Vec<Record>> {
    let [short, long] = QUEUES;
    let case = format!("fair, queues of {short} and of {long} waiters");
    let mut work = [(); 2].map(|()| Vec::new());
    for _ in 0..bench.timing.rounds.div_ceil(2) {
        for (waiters, work) in QUEUES.into_iter().zip(&mut work) {
            let before = bench.server_micros().await?;
            let crowd = contend(bench.fair("queue"), waiters, bench.timing.turn * LONGER).await?;
            let micros = bench.server_micros().await? - before;
            work.push(micros / crowd.with_drain as f64);
        }
    }
    let [short_work, long_work] = work;
    let ours = |name, samples| Record::new(&case, OursFair::NAME, name, Unit::Micros, samples);
    Ok(vec![
        ours("server per grant, short", short_work.clone()),
        ours("server per grant, long", long_work)
            .over(&short_work)
            .target(Target::AtMost(MORE_WORK)),
    ])
}

/// The median time of the floor's pair by one task now, in µs.
async fn floor_pair(bench: &Bench) -> Result<f64> {
    let _awake = Awake::keep();
    Ok(alone(bench.bare("pair"), bench.timing.turn / 5).await?.quantile(0.5))
}
