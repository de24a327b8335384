//! Many tasks, each with a lock of its own, spread over the masters of a cluster.

use lock_runtime::LockClient;
use lock_tests::RedisCluster;

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::bench::Bench;
use crate::server::contender::{Contender, Ours};
use crate::server::drive::apart;

const CASE: &str = "cluster: 64 tasks, each takes a lock of its own in a cluster of three masters";
const TASKS: usize = 64;
const MASTERS: usize = 3;

/// Commands of a lone pair on one server: two `EVALSHA`, and what their scripts call.
const COMMANDS: f64 = 9.0;

/// What the masters count.
#[derive(Default)]
struct Served {
    commands: u64,
    /// How often a master found requests to read: requests that share a write of the client share a read.
    reads: u64,
}

/// Measures the case, and the same tasks on one server in the same rounds.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let cluster = RedisCluster::start().await;
    let client = LockClient::builder().connect_cluster(cluster.urls()).await?;
    let locks = |lock: &dyn Fn(&str) -> Ours| -> Vec<Ours> {
        (0..TASKS).map(|task| lock(&format!("spread:{task}"))).collect()
    };
    let spread = locks(&|name| Ours::new(client.mutex(name)));
    let on_one = locks(&|name| bench.ours(name));
    let (mut rates, mut on_one_rates) = (Vec::new(), Vec::new());
    let (mut commands, mut reads) = (Vec::new(), Vec::new());
    // The first pairs load the scripts.
    apart(spread.clone(), bench.timing.turn / 10).await?;
    for _ in 0..bench.timing.rounds {
        on_one_rates.push(apart(on_one.clone(), bench.timing.turn).await?.rate());
        let before = served(&cluster).await;
        let crowd = apart(spread.clone(), bench.timing.turn).await?;
        let after = served(&cluster).await;
        let pairs = crowd.with_drain as f64;
        rates.push(crowd.rate());
        commands.push((after.commands - before.commands) as f64 / pairs);
        reads.push((after.reads - before.reads) as f64 / pairs);
    }
    client.shutdown(std::time::Duration::from_secs(1)).await;
    let plain = |name, unit, samples| Record::new(CASE, Ours::NAME, name, unit, samples);
    Ok(vec![
        plain("pairs on one server", Unit::PerSecond, on_one_rates.clone()),
        plain("pairs (ratio: to one server)", Unit::PerSecond, rates).over(&on_one_rates),
        // A check of a node, or of the slots, comes once in a while.
        plain("commands per pair", Unit::Plain, commands).target(Target::AtMost(COMMANDS * 1.01)),
        // Two requests, which would be two reads if each had a write of its own.
        plain("reads by the masters per pair", Unit::Plain, reads).target(Target::AtMost(1.0)),
    ])
}

async fn served(cluster: &RedisCluster) -> Served {
    let mut sum = Served::default();
    for at in 0..MASTERS {
        let node = cluster.node(at);
        let calls = node.command_calls().await;
        sum.commands +=
            calls.iter().filter(|(name, _)| *name != "info").map(|it| it.1).sum::<u64>();
        let info: String = node.client().get(&["INFO", "stats"]).await;
        let reads = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
        sum.reads += reads.and_then(|reads| reads.trim().parse::<u64>().ok()).unwrap_or_default();
    }
    sum
}
