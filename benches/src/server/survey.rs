//! The same work by two clients, one that answers surveys and one that does not: answering must cost nothing until
//! a survey asks.

use std::time::Duration;

use lock_runtime::LockClient;

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::awake::Awake;
use crate::server::bench::Bench;
use crate::server::contender::Ours;
use crate::server::drive::{apart, contend};
use crate::server::nested;

const OFF: &str = "no survey";
const ON: &str = "survey";
const TASKS: usize = 64;

/// Shorter turns by this factor, and as many more: a difference of one in a hundred shows only in the median of many
/// pairs of neighbours.
const FINER: u32 = 8;

/// A kind of work, measured in pairs or grants per second.
#[derive(Clone, Copy)]
enum Work {
    Pair,
    OwnKeys,
    HotKey,
    Nested,
}

impl Work {
    const ALL: [Self; 4] = [Self::Pair, Self::OwnKeys, Self::HotKey, Self::Nested];

    const fn case(self) -> &'static str {
        match self {
            Self::Pair => "survey: pair, one task",
            Self::OwnKeys => "survey: own keys, 64 tasks",
            Self::HotKey => "survey: hot key, 64 tasks",
            Self::Nested => "survey: nested, one task",
        }
    }

    /// Pairs per second.
    async fn rate(self, client: &LockClient, turn: Duration) -> Result<f64> {
        let lock = |name: &str| Ours::new(client.mutex(format!("survey:{name}")));
        Ok(match self {
            Self::Pair => apart(vec![lock("pair")], turn).await?.rate(),
            Self::OwnKeys => {
                let locks = (0..TASKS).map(|task| lock(&format!("own:{task}"))).collect();
                apart(locks, turn).await?.rate()
            }
            Self::HotKey => contend(lock("hot"), TASKS, turn).await?.rate(),
            Self::Nested => 1e9 / nested::pair(lock("nested"), turn).await?,
        })
    }
}

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let url = bench.server.url();
    let off = LockClient::builder().survey(false).connect(&url).await?;
    let on = LockClient::connect(&url).await?;
    let turn = bench.timing.turn / FINER;
    let mut records = Vec::new();
    for work in Work::ALL {
        let _awake = matches!(work, Work::Pair).then(Awake::keep);
        let mut rates = [(); 2].map(|()| Vec::new());
        for client in [&off, &on] {
            work.rate(client, turn).await?;
        }
        for round in 0..bench.timing.rounds * FINER as usize {
            for next in [round % 2, 1 - round % 2] {
                rates[next].push(work.rate([&off, &on][next], turn).await?);
            }
        }
        let [off, on] = rates;
        let pairs = |name, rates| Record::new(work.case(), name, "pairs", Unit::PerSecond, rates);
        records.push(pairs(ON, on).over(&off).target(Target::AtLeast(0.98)));
        records.push(pairs(OFF, off));
    }
    for client in [off, on] {
        client.shutdown(Duration::from_secs(1)).await;
    }
    Ok(records)
}
