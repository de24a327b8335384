//! Many locks held at once: what it costs to renew them.

use std::time::Duration;

use lock_runtime::{LockClient, LockGuard};
use lock_tests::RedisServer;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::usage::{info, process_cpu, resident_bytes, server_micros};

const HOLDS: [usize; 3] = [1_000, 10_000, 100_000];

/// Of the default options.
const LEASE: Duration = Duration::from_secs(30);

/// Tasks that acquire the locks.
const TASKS: usize = 64;

/// How often the guards are checked.
const CHECK: Duration = Duration::from_secs(1);

/// In parts: checking all guards at once would take a processor from the server, in the middle of a script.
const CHECKED_AT_ONCE: usize = 2_000;
const BETWEEN_CHECKED: Duration = Duration::from_millis(1);

/// Measures the case.
pub(super) async fn run(server: &RedisServer) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for holds in HOLDS {
        records.extend(measure(server, holds).await?);
    }
    Ok(records)
}

/// Acquires the locks, measures for a lease from then on, and releases them.
async fn measure(server: &RedisServer, holds: usize) -> Result<Vec<Record>> {
    let client = LockClient::connect(&server.url()).await?;
    let memory = resident_bytes();
    let guards = acquired(&client, holds).await?;
    let memory = resident_bytes().zip(memory).map(|(after, before)| after - before);

    server.client().cmd(&["CONFIG", "SET", "latency-tracking-info-percentiles", "100"]).await;
    server.reset_stats().await;
    let (server_before, client_before, started) =
        (server_micros(server).await, process_cpu(), Instant::now());
    let mut late = 0;
    for check in 1..=LEASE.as_secs() {
        sleep_until(started + CHECK * u32::try_from(check)?).await;
        for some in guards.chunks(CHECKED_AT_ONCE) {
            late += some.iter().filter(|guard| guard.remaining() < LEASE / 2).count();
            sleep(BETWEEN_CHECKED).await;
        }
    }
    let time = started.elapsed().as_secs_f64();
    let client_cpu = process_cpu().saturating_sub(client_before);
    let server_cpu = (server_micros(server).await - server_before) / 1e6;
    let commands = server.command_calls().await;
    let calls = |name: &str| commands.get(name).copied().unwrap_or_default() as f64;
    let renewals = calls("pexpireat");
    let in_scripts =
        ["pexpireat", "pexpire", "hget", "pttl", "hexists", "time"].map(calls).iter().sum::<f64>();
    let longest = info(server, "latencystats", "latency_percentiles_usec_evalsha").await;
    let longest = longest.strip_prefix("p100=").ok_or("the server does not track latencies")?;
    let longest = longest.parse()?;
    release(guards).await?;
    client.shutdown(Duration::from_secs(10)).await;
    let case = format!("holds: {holds} locks, all acquired at once, and kept");
    let record = |name, unit, figure| Record::new(&case, "ours", name, unit, vec![figure]);
    let plain = |name, figure| record(name, Unit::Plain, figure);
    let mut records = vec![
        plain("client, % of a core", client_cpu.as_secs_f64() / time * 100.0)
            .target(Target::AtMost(3.0)),
        plain("server, % of a core", server_cpu / time * 100.0).target(Target::AtMost(4.0)),
        plain("late renewals", late as f64).target(Target::AtMost(0.0)),
        record("longest script", Unit::Micros, longest).target(Target::AtMost(2_000.0)),
        plain("renewals of a hold in a lease", renewals / holds as f64),
        plain("scripts per renewal", calls("evalsha") / renewals),
        plain("commands per renewal", in_scripts / renewals),
    ];
    // Smaller numbers of holds fit in memory that is there already.
    if let Some(memory) = memory.filter(|_| holds >= 100_000) {
        let bytes = memory / holds as f64;
        records.push(plain("bytes per hold", bytes).target(Target::AtMost(1_000.0)));
    }
    Ok(records)
}

async fn acquired(client: &LockClient, holds: usize) -> Result<Vec<LockGuard>> {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut guards = Vec::with_capacity(holds.div_ceil(TASKS));
            for number in (task..holds).step_by(TASKS) {
                guards.push(client.mutex(format!("holds:{holds}:{number}")).lock().await?);
            }
            Ok::<_, lock_runtime::LockError>(guards)
        });
    }
    let mut guards = Vec::with_capacity(holds);
    while let Some(some) = tasks.join_next().await {
        guards.extend(some??);
    }
    Ok(guards)
}

async fn release(mut guards: Vec<LockGuard>) -> Result<()> {
    let (mut tasks, each) = (JoinSet::new(), guards.len().div_ceil(TASKS));
    while !guards.is_empty() {
        let some = guards.split_off(guards.len().saturating_sub(each));
        tasks.spawn(async move {
            for guard in some {
                guard.release().await?;
            }
            Ok::<_, lock_runtime::LockError>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
