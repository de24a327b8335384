//! A process that takes locks when told to, for tests that stop and kill processes.
//!
//! `locks <redis url> <history directory> [<waiter lease ms>]`, then one command a line. The kinds are `mutex`, `fair`, `read`,
//! `write` and `semaphore` (one permit of one); the leases that commands name are watchdog leases.
//!
//! - `hold <kind> <name> <lease ms>`: takes the lock, answers `held <token>`, and has effects under it until it is lost.
//! - `take <name> <limit> <permits> <lease ms>`: the same with permits of a semaphore.
//! - `lock [<kind>] <name> [<lease ms>]`: takes the lock, answers `locked <token>`, and keeps it.
//! - `inside <name> <ms>`: waits so long at most for a second lock inside of what `lock` took, releases both, and answers
//!   `nested` or `gave up`.
//! - `release`: releases what `lock` took, answers `released`.
//! - `queue <name> <task>`: a task of that number waits for the fair mutex, keeps it for a moment, releases it, and answers
//!   `done <task>`.
//!
//! An `error …` line says what went wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockOptions};
use lock_tests::history::{Recorder, Share};
use lock_tests::take;
use lock_tests::witness::{Witness, Witnessed};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::sleep;

use super::Failure;

/// A lock that a command has acquired and that is kept until another one releases it.
type Kept = Option<Witnessed<'static>>;

/// The number of the task that keeps a lock; others count from zero.
const KEEPER: u64 = 1 << 32;

/// How often the renewals of a kept lock are recorded: more often than a lease can have been renewed twice.
const RENEWALS_EVERY: Duration = Duration::from_millis(50);

/// How often a holder has an effect.
const EFFECT_EVERY: Duration = Duration::from_millis(2);

/// How long one of the line keeps the lock, for others to come at the same time if they could.
const A_MOMENT: Duration = Duration::from_millis(1);

#[tokio::main(worker_threads = 2)]
pub(super) async fn run(url: &str, dir: &str, waiter_lease: Option<&&str>) -> Result<(), Failure> {
    let mut builder = LockClient::builder();
    if let Some(lease) = waiter_lease {
        builder = builder.waiter_lease(millis(lease)?);
    }
    let locks = Locks {
        client: builder.connect(url).await?,
        recorder: Arc::new(Recorder::create(Path::new(dir))?),
    };
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut kept = None;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            () = sleep(RENEWALS_EVERY), if kept.is_some() => {
                kept.iter_mut().for_each(Witnessed::record_renewal);
                continue;
            }
        };
        let Some(line) = line else { break };
        if let Err(error) = locks.obey(&line, &mut kept).await {
            println!("error {error}");
        }
    }
    Ok(())
}

fn millis(text: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(text.parse()?))
}

/// Who else may have a lock of that kind.
fn share(kind: &str) -> Share {
    match kind {
        "read" => Share::Readers,
        "semaphore" => Share::Permits { count: 1, limit: 1 },
        _ => Share::Exclusive,
    }
}

fn watched(lease: &str) -> Result<LockOptions, Failure> {
    Ok(LockOptions::new().lease(Lease::Watchdog(millis(lease)?)))
}

/// Has an effect at the start and at the end of that time.
async fn works(held: &mut Witnessed<'_>, time: Duration) {
    held.effect();
    sleep(time).await;
    held.effect();
}

/// Other commands are obeyed meanwhile.
fn meanwhile(work: impl Future<Output = Result<(), Failure>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = work.await {
            println!("error {error}");
        }
    });
}

#[derive(Clone)]
struct Locks {
    client: LockClient,
    recorder: Arc<Recorder>,
}

impl Locks {
    async fn obey(&self, line: &str, kept: &mut Kept) -> Result<(), Failure> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["hold", kind, name, lease] => {
                let (client, options) = (self.client.clone(), watched(lease)?);
                let (kind, lock) = (kind.to_owned(), name.to_owned());
                let share = share(&kind);
                let acquire = async move { take(&client, &kind, &lock, options).await };
                self.hold(name, share, acquire);
            }
            ["take", name, limit, count, lease] => {
                let (limit, count) = (limit.parse()?, count.parse()?);
                let semaphore = self.client.semaphore(name, limit).with(watched(lease)?);
                self.hold(name, Share::Permits { count, limit }, semaphore.acquire_many(count));
            }
            ["lock", name] => self.keep(kept, "mutex", name, LockOptions::new()).await?,
            ["lock", kind, name] => self.keep(kept, kind, name, LockOptions::new()).await?,
            ["lock", kind, name, lease] => self.keep(kept, kind, name, watched(lease)?).await?,
            ["inside", name, ms] => {
                let outer = kept.take().ok_or("nothing is locked")?;
                let inner = self.client.mutex(name).wait(millis(ms)?);
                let witness = Witness::new(&self.recorder, KEEPER, name, Share::Exclusive);
                tokio::spawn(async move {
                    let nested = outer.guard().run(witness.acquire(inner.lock())).await;
                    let answer = if matches!(nested, Ok(Ok(_))) { "nested" } else { "gave up" };
                    drop((nested, outer));
                    println!("{answer}");
                });
            }
            ["release"] => {
                kept.take().ok_or("nothing is locked")?.release().await?;
                println!("released");
            }
            ["queue", name, task] => {
                let task = task.parse()?;
                let witness = Witness::new(&self.recorder, task, name, Share::Exclusive);
                let lock = self.client.fair_mutex(name);
                meanwhile(async move {
                    let mut held = witness.acquire(lock.lock()).await?;
                    works(&mut held, A_MOMENT).await;
                    held.release().await?;
                    println!("done {task}");
                    Ok(())
                });
            }
            _ => return Err(format!("there is no such command: {words:?}").into()),
        }
        Ok(())
    }

    /// Holds the lock until it is lost or the process is killed.
    fn hold(
        &self,
        name: &str,
        share: Share,
        acquire: impl Future<Output = Result<LockGuard, LockError>> + Send + 'static,
    ) {
        let witness = Witness::new(&self.recorder, KEEPER, name, share);
        meanwhile(async move {
            let held = witness.acquire(acquire).await?;
            println!("held {}", held.guard().token());
            println!("lost {}", held.effects(EFFECT_EVERY, true).await);
            Ok(())
        });
    }

    /// Keeps the lock. Its witness lives as long as the process.
    async fn keep(
        &self,
        kept: &mut Kept,
        kind: &str,
        name: &str,
        options: LockOptions,
    ) -> Result<(), Failure> {
        let witness = Witness::new(&self.recorder, KEEPER, name, share(kind));
        let held = Box::leak(Box::new(witness)).acquire(take(&self.client, kind, name, options));
        let held = held.await?;
        println!("locked {}", kept.insert(held).guard().token());
        Ok(())
    }
}
