//! The commands for read/write locks.
//!
//! - `rw-read <name> <lease ms>`, `rw-write <name> <lease ms>`: takes that side with a watchdog
//!   lease, answers `reading <token>` or `writing <token>`, and keeps it.
//! - `rw-release`: releases what that took, answers `released`.
//! - `rw-hammer <name> <readers> <writers> <ms>`: so many tasks of each take and release their side
//!   for that long, with an effect in between; answers `hammered <reads> <writes>`.

use std::time::Duration;

use lock_runtime::{Lease, LockOptions};
use lock_tests::history::Share;
use lock_tests::witness::Witness;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Kept, Worker};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Obeys the command if it is one of these. Nothing is held longer than the process is told to.
pub(super) async fn obey(
    worker: &Worker,
    words: &[&str],
    held: &mut Kept,
) -> Result<bool, Failure> {
    match *words {
        [side @ ("rw-read" | "rw-write"), name, lease] => {
            let lease = Lease::Watchdog(Duration::from_millis(lease.parse()?));
            let options = LockOptions::new().lease(lease);
            let lock = worker.client.rw_lock(name).with(options);
            if side == "rw-read" {
                let token = worker.keep(held, name, Share::Readers, lock.read()).await?;
                println!("reading {token}");
            } else {
                let token = worker.keep(held, name, Share::Exclusive, lock.write()).await?;
                println!("writing {token}");
            }
        }
        ["rw-release"] => {
            held.take().ok_or("nothing is locked")?.release().await?;
            println!("released");
        }
        ["rw-hammer", name, readers, writers, ms] => {
            let (readers, writers): (u64, u64) = (readers.parse()?, writers.parse()?);
            let until = Instant::now() + Duration::from_millis(ms.parse()?);
            let mut tasks = JoinSet::new();
            for task in 0..readers + writers {
                let (worker, name) = (worker.clone(), name.to_owned());
                tasks.spawn(async move {
                    let writes = task >= readers;
                    Ok::<_, Failure>((writes, hammer(&worker, &name, task, writes, until).await?))
                });
            }
            let (mut reads, mut written) = (0, 0);
            while let Some(task) = tasks.join_next().await {
                let (writes, grants) = task??;
                *(if writes { &mut written } else { &mut reads }) += grants;
            }
            println!("hammered {reads} {written}");
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn hammer(
    worker: &Worker,
    name: &str,
    task: u64,
    writes: bool,
    until: Instant,
) -> Result<u64, Failure> {
    // Short, so that what a killed process leaves behind does not fill the test's time.
    let options = LockOptions::new().lease(Lease::Watchdog(Duration::from_millis(800)));
    let lock = worker.client.rw_lock(name).with(options);
    let share = if writes { Share::Exclusive } else { Share::Readers };
    let witness = Witness::new(&worker.recorder, task, name, share);
    let mut values = worker.values.clone();
    let mut grants = 0;
    while Instant::now() < until {
        let acquire = async { if writes { lock.write().await } else { lock.read().await } };
        let mut held = witness.acquire(acquire).await?;
        let work = Duration::from_millis(fastrand::u64(0..4));
        if writes {
            held.update(&mut values, work).await;
        } else {
            held.effect();
            sleep(work).await;
            held.effect();
        }
        grants += 1;
        held.release().await?;
        // Writers go first: without pauses they would leave nothing to readers.
        let pause = if writes { 0..60 } else { 0..10 };
        sleep(Duration::from_millis(fastrand::u64(pause))).await;
    }
    Ok(grants)
}
