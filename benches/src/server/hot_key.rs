//! Many tasks of one process on one lock: hand-off, and how fair it is.

use std::time::Duration;

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::awake::Awake;
use crate::server::bench::Bench;
use crate::server::contender::{Contender, Ours, Peer};
use crate::server::drive::{alone, contend};

const CROWDS: [usize; 3] = [8, 64, 512];

/// The largest crowd that the peer is measured with. It polls, so larger crowds show nothing new.
const LARGEST_FOR_PEER: usize = 64;

/// 150 000 grants in a second where the floor needs 70 µs for a pair.
const GRANTS_PER_FLOOR_PAIR: f64 = 150_000.0 * 70.0 / 1e6;

/// These turns are longer by this factor, so that a task that loses its processor to another program for a
/// moment does not look as if the lock had passed it over.
const LONGER: u32 = 2;

/// The figures of one contender's turns.
#[derive(Default)]
struct Figures {
    grants: Vec<f64>,
    fewest: Vec<f64>,
    most: Vec<f64>,
    evenness: Vec<f64>,
    commands: Vec<f64>,
    scripts: Vec<f64>,
    /// Pairs per second of the floor around each turn.
    floor: Vec<f64>,
}

impl Figures {
    /// Runs one turn, between two shorter turns of the floor's single task.
    async fn add<C: Contender>(
        &mut self,
        bench: &Bench,
        lock: C,
        tasks: usize,
        turn: Duration,
    ) -> Result<()> {
        let before = floor_pair(bench).await?;
        let commands = bench.commands().await;
        let crowd = contend(lock, tasks, turn).await?;
        let after = bench.commands().await;
        let floor = f64::midpoint(before, floor_pair(bench).await?);
        let (fewest, most) = crowd.extremes();
        let grants = crowd.with_drain as f64;
        self.grants.push(crowd.rate());
        self.fewest.push(fewest);
        self.most.push(most);
        self.evenness.push(fewest / most);
        self.commands.push(after.all_since(&commands) as f64 / grants);
        self.scripts.push(after.since(&commands, "evalsha") as f64 / grants);
        self.floor.push(1e6 / floor);
        Ok(())
    }

    fn records<C: Contender>(self, case: &str, targets: bool) -> Vec<Record> {
        let plain = |name, unit, samples| Record::new(case, C::NAME, name, unit, samples);
        let aim = |record: Record, target| if targets { record.target(target) } else { record };
        let grants = plain("grants", Unit::PerSecond, self.grants).over(&self.floor);
        vec![
            aim(grants, Target::AtLeast(GRANTS_PER_FLOOR_PAIR)),
            plain("fewest of one task", Unit::PerSecond, self.fewest),
            plain("most of one task", Unit::PerSecond, self.most),
            aim(plain("fewest ÷ most", Unit::Plain, self.evenness), Target::AtLeast(0.9)),
            aim(plain("commands per grant", Unit::Plain, self.commands), Target::AtMost(0.05)),
            plain("EVALSHA per grant", Unit::Plain, self.scripts),
        ]
    }
}

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for tasks in CROWDS {
        let case = format!("hot-key, {tasks} tasks: all take the same lock and give it back");
        let mut ours = Figures::default();
        for _ in 0..bench.timing.rounds {
            ours.add(bench, bench.ours("hot"), tasks, bench.timing.turn * LONGER).await?;
        }
        let mut rows = ours.records::<Ours>(&case, true);
        if tasks <= LARGEST_FOR_PEER {
            let mut peer = Figures::default();
            peer.add(bench, bench.peer("hot"), tasks, bench.timing.slow_turn).await?;
            rows.extend(peer.records::<Peer>(&case, false));
        }
        // The contenders of one figure next to each other; the sort keeps their order.
        let figures: Vec<&str> = rows.iter().map(|row| row.name).collect();
        rows.sort_by_key(|row| figures.iter().position(|name| *name == row.name));
        records.extend(rows);
    }
    Ok(records)
}

/// The median time of the floor's pair by one task now, in µs.
async fn floor_pair(bench: &Bench) -> Result<f64> {
    let _awake = Awake::keep();
    Ok(alone(bench.bare("pair"), bench.timing.turn / 5).await?.quantile(0.5))
}
