//! A process with a crew: its tasks use locks of every kind until it is told to stop.
//!
//! `crew <configuration> <url of the values> <history directory> <answer ms> <habits>`, with the configuration of the
//! client in TOML and the habits in JSON, answers `ready` when its tasks run, then takes one command a line. The place of a
//! task that waits for a fair lock stays for two leases.
//!
//! - `work <times>`: answers `worked` when they have acquired every lock so many times more.
//! - `hold`: acquires locks of its own of every kind, answers `held`, and works under them until they are lost.
//! - `queue <name>`: waits in the queue of that fair mutex, and keeps it.
//! - `block <ms>`: blocks all threads that run its tasks for that time, then answers `blocked`.
//! - `time`: answers with the time of day that it sees, in seconds.
//! - `stop`: ends them, answers `stopped`, and exits.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTimeError};

use lock_runtime::policy::LockConfig;
use lock_runtime::{Lease, LockClient, LockClientBuilder, LockError, LockOptions};
use lock_tests::crew::{Crew, Habits, Job, connect_to_values};
use lock_tests::history::Recorder;
use lock_tests::witness::Witness;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Failure;

/// More than the end of all tasks takes on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// How often there is an effect under a lock that is held for long.
const EFFECT_EVERY: Duration = Duration::from_millis(5);

/// How many threads run the tasks.
const THREADS: usize = 2;

#[tokio::main(worker_threads = 2)]
pub(super) async fn run(
    config: &str,
    values: &str,
    dir: &str,
    answer: &str,
    habits: &str,
) -> Result<(), Failure> {
    let config = LockConfig::from_toml(config)?;
    let habits: Habits = serde_json::from_str(habits)?;
    let (answer, lease) = (Duration::from_millis(answer.parse()?), habits.lease);
    let builder = LockClient::builder().command_timeout(answer).waiter_lease(2 * lease);
    let client = connect(&builder, &config).await?;
    let values = connect_to_values(values).await?;
    let recorder = Arc::new(Recorder::create(Path::new(dir))?);
    let mut crew = Crew::new(&recorder, values, habits);
    crew.add(&client);
    println!("ready");
    let mut held = JoinSet::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("work", times) => {
                crew.work(times.parse()?, BOUND).await;
                println!("worked");
            }
            ("hold", _) => {
                for (job, task) in Job::ALL.into_iter().zip(crew.tasks()..) {
                    let (client, recorder) = (client.clone(), Arc::clone(&recorder));
                    let (sender, acquired) = oneshot::channel();
                    held.spawn(hold(client, recorder, job, task, lease, sender));
                    acquired.await?;
                }
                println!("held");
            }
            ("queue", name) => {
                let waiting = client.fair_mutex(name).lock();
                held.spawn(async move {
                    let _held = waiting.await?;
                    std::future::pending().await
                });
            }
            ("block", time) => {
                block(Duration::from_millis(time.parse()?)).await;
                println!("blocked");
            }
            ("time", _) => println!("{}", time_of_day()?),
            ("stop", _) => {
                crew.stop(BOUND).await;
                held.shutdown().await;
                let shutdown = client.shutdown(BOUND).await;
                if !shutdown.is_clean() {
                    return Err(format!("not all was released: {shutdown:?}").into());
                }
                println!("stopped");
                return Ok(());
            }
            _ => return Err(format!("no such command: {line}").into()),
        }
    }
    Ok(())
}

/// Connects, also where a busy machine takes longer than a client waits for its first connection.
async fn connect(
    builder: &LockClientBuilder,
    config: &LockConfig,
) -> Result<LockClient, LockError> {
    let start = Instant::now();
    loop {
        match builder.clone().connect_config(config.clone()).await {
            Err(error) if error.is_retryable() && start.elapsed() < BOUND => {}
            connected => return connected,
        }
    }
}

/// Acquires a lock of the worker's own, tells of it, and has effects under it until it is lost.
async fn hold(
    client: LockClient,
    recorder: Arc<Recorder>,
    job: Job,
    task: u64,
    lease: Duration,
    acquired: oneshot::Sender<()>,
) -> Result<(), LockError> {
    let name = format!("own:{job:?}");
    let options = LockOptions::new().lease(Lease::Watchdog(lease));
    let witness = Witness::new(&recorder, task, &name, job.share());
    let held = witness.acquire(job.acquire(&client, &name, options)).await?;
    // Or else the worker has ended.
    let _ = acquired.send(());
    held.effects(EFFECT_EVERY, true).await;
    Ok(())
}

/// Does on each thread at once what async code must not do.
async fn block(time: Duration) {
    let all_are_here = Arc::new(Barrier::new(THREADS));
    let mut blocking = JoinSet::new();
    for _ in 0..THREADS {
        let all_are_here = Arc::clone(&all_are_here);
        blocking.spawn(async move {
            all_are_here.wait();
            std::thread::sleep(time);
        });
    }
    blocking.join_all().await;
}

#[allow(clippy::disallowed_types, reason = "a test asks whether it has changed this clock")]
fn time_of_day() -> Result<u64, SystemTimeError> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs())
}
