//! Many locks held at once: what it costs to renew them.

use std::time::Duration;

use lock_runtime::{LockClient, LockGuard};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::bench::Bench;
use crate::server::contender::{Contender, Ours};
use crate::server::usage::{process_cpu, resident_bytes, thread_cpu};

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

/// The figures of one round.
struct Figures {
    /// Percent of a core.
    client: f64,
    server: f64,
    /// Bytes of resident memory for each hold.
    bytes: Option<f64>,
    late: usize,
    /// The longest script, in µs.
    longest: f64,
    /// In a lease.
    renewals_of_a_hold: f64,
    /// Scripts and commands of a renewal.
    scripts: f64,
    commands: f64,
}

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for holds in HOLDS {
        let figures = measure(bench, holds).await?;
        let case = format!("holds: {holds} locks, all acquired at once, and kept");
        let plain = |name, figure| Record::new(&case, Ours::NAME, name, Unit::Plain, vec![figure]);
        records.extend([
            plain("client, % of a core", figures.client).target(Target::AtMost(3.0)),
            plain("server, % of a core", figures.server).target(Target::AtMost(3.0)),
            plain("late renewals", figures.late as f64).target(Target::AtMost(0.0)),
            Record::new(&case, Ours::NAME, "longest script", Unit::Micros, vec![figures.longest])
                .target(Target::AtMost(2_000.0)),
            plain("renewals of a hold in a lease", figures.renewals_of_a_hold),
            plain("scripts per renewal", figures.scripts),
            plain("commands per renewal", figures.commands),
        ]);
        records.extend(
            figures
                .bytes
                .map(|bytes| plain("bytes per hold", bytes).target(Target::AtMost(1_000.0))),
        );
    }
    Ok(records)
}

/// Acquires the locks, measures for a lease from then on, and releases them.
async fn measure(bench: &Bench, holds: usize) -> Result<Figures> {
    let client = LockClient::connect(&bench.server.url()).await?;
    let memory = resident_bytes();
    let guards = acquired(&client, holds).await?;
    let memory = resident_bytes().zip(memory).map(|(after, before)| after - before);

    let raw = bench.server.client();
    raw.cmd(&["CONFIG", "SET", "latency-tracking-info-percentiles", "100"]).await;
    bench.server.reset_stats().await;
    let (server, client_before, started) =
        (server_cpu(bench).await?, process_cpu(), Instant::now());
    let (mut checking, mut late) = (Duration::ZERO, 0);
    for check in 1..=LEASE.as_secs() {
        sleep_until(started + CHECK * u32::try_from(check)?).await;
        for some in guards.chunks(CHECKED_AT_ONCE) {
            let before = thread_cpu();
            late += some.iter().filter(|guard| guard.remaining() < LEASE / 2).count();
            checking += thread_cpu().saturating_sub(before);
            sleep(BETWEEN_CHECKED).await;
        }
    }
    let time = started.elapsed().as_secs_f64();
    let client_cpu = process_cpu().saturating_sub(client_before).saturating_sub(checking);
    let server = server_cpu(bench).await? - server;
    let commands = bench.server.command_calls().await;
    let calls = |name: &str| commands.get(name).copied().unwrap_or_default() as f64;
    let renewals = calls("pexpireat");
    let in_scripts =
        ["pexpireat", "pexpire", "hget", "pttl", "hexists", "time"].map(calls).iter().sum::<f64>();
    let longest = longest_script(bench).await?;
    release(guards).await?;
    client.shutdown(Duration::from_secs(10)).await;
    Ok(Figures {
        client: client_cpu.as_secs_f64() / time * 100.0,
        server: server / time * 100.0,
        // Smaller numbers of holds fit in memory that is there already.
        bytes: memory.filter(|_| holds >= 100_000).map(|memory| memory / holds as f64),
        late,
        longest,
        renewals_of_a_hold: renewals / holds as f64,
        scripts: calls("evalsha") / renewals,
        commands: in_scripts / renewals,
    })
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
    let mut tasks = JoinSet::new();
    while !guards.is_empty() {
        let some = guards.split_off(guards.len().saturating_sub(guards.len().div_ceil(TASKS)));
        tasks.spawn(async move {
            for guard in some {
                guard.release().await?;
            }
            Ok::<_, lock_runtime::LockError>(())
        });
        if tasks.len() >= TASKS
            && let Some(ended) = tasks.join_next().await
        {
            ended??;
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// The processor time of the server, in seconds.
async fn server_cpu(bench: &Bench) -> Result<f64> {
    let info: String = bench.server.client().get(&["INFO", "cpu"]).await;
    let of = |name: &str| -> Result<f64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.ok_or("INFO cpu has no such line")?.trim().parse()?)
    };
    Ok(of("used_cpu_sys")? + of("used_cpu_user")?)
}

/// The longest run of a script since the statistics were reset, in µs.
async fn longest_script(bench: &Bench) -> Result<f64> {
    let info: String = bench.server.client().get(&["INFO", "latencystats"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("latency_percentiles_usec_evalsha:"));
    let value = line.and_then(|line| line.trim().strip_prefix("p100="));
    Ok(value.ok_or("the server does not track latencies")?.parse()?)
}
