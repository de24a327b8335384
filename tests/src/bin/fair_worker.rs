//! A process that waits for fair mutexes when told to, for tests of their line.
//!
//! `fair_worker <redis url> <history directory> <waiter lease ms>`, then one command a line:
//!
//! - `queue <name> <task>`: a task of that number waits for the lock, keeps it for a moment, releases
//!   it, and answers `done <task>`.
//! - `take <name> <lease ms>`: takes the lock with a watchdog lease, answers `taken`, and keeps it.
//!
//! What it does is in the history; an `error …` line says what went wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockError, LockOptions};
use lock_tests::history::{Recorder, Share};
use lock_tests::witness::Witness;
use tokio::io::{AsyncBufReadExt, BufReader};

/// How long a waiter keeps the lock, for others to come at the same time if they could.
const A_MOMENT: Duration = Duration::from_millis(1);

/// The number of the task that keeps a lock; others count from zero.
const KEEPER: u64 = 1 << 32;

/// How often a lock that is kept has an effect.
const EFFECT_EVERY: Duration = Duration::from_millis(10);

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [url, dir, waiter_lease] = &args[..] else {
        return Err("usage: fair_worker <redis url> <history directory> <waiter lease ms>".into());
    };
    let waiter_lease = Duration::from_millis(waiter_lease.parse()?);
    let client = LockClient::builder().waiter_lease(waiter_lease).connect(url).await?;
    let recorder = Arc::new(Recorder::create(Path::new(dir))?);
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if let Err(error) = obey(&line, &client, &recorder).await {
            println!("error {error}");
        }
    }
    Ok(())
}

async fn obey(line: &str, client: &LockClient, recorder: &Arc<Recorder>) -> Outcome {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["queue", name, task] => {
            let (client, recorder) = (client.clone(), Arc::clone(recorder));
            let (name, task) = (name.to_owned(), task.parse()?);
            tokio::spawn(async move {
                match queue(&client, &recorder, &name, task).await {
                    Ok(()) => println!("done {task}"),
                    Err(error) => println!("error {error}"),
                }
            });
        }
        ["take", name, lease] => {
            let lease = Lease::Watchdog(Duration::from_millis(lease.parse()?));
            let options = LockOptions::new().lease(lease);
            let lock = client.fair_mutex(name).with(options);
            let witness = Witness::new(recorder, KEEPER, name, Share::Exclusive);
            tokio::spawn(async move {
                match witness.acquire(lock.lock()).await {
                    Ok(held) => {
                        println!("taken");
                        // Until the process is killed.
                        println!("error {}", held.effects(EFFECT_EVERY, true).await);
                    }
                    Err(error) => println!("error {error}"),
                }
            });
        }
        _ => return Err(format!("no such command: {line}").into()),
    }
    Ok(())
}

async fn queue(
    client: &LockClient,
    recorder: &Arc<Recorder>,
    name: &str,
    task: u64,
) -> Result<(), LockError> {
    let witness = Witness::new(recorder, task, name, Share::Exclusive);
    let mut held = witness.acquire(client.fair_mutex(name).lock()).await?;
    held.effect();
    tokio::time::sleep(A_MOMENT).await;
    held.effect();
    held.release().await?;
    Ok(())
}
