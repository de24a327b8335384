//! A process that takes locks when told to, for tests that stop and kill processes.
//!
//! `locks <redis url> <history directory> [<waiter lease ms>]`, then one command a line. The kinds are `mutex`, `fair`, `read`,
//! `write` and `semaphore` (one permit of one); the leases that commands name are watchdog leases.
//!
//! - `hold <kind> <name> <lease ms>`: takes the lock, answers `held <token>`, and has effects under it until it is lost.
//! - `take <name> <limit> <permits> <lease ms>`: the same with permits of a semaphore.
//! - `lock [<kind>] <name> [<lease ms>]`: takes the lock, answers `locked <token>`, and keeps it.
//! - `lock-at-least <name> <ms>`: takes the mutex to be kept at least so long, answers `locked <token>`.
//! - `inside <name> <ms>`: waits so long at most for a second lock inside of what `lock` took, releases both, and answers
//!   `nested` or `gave up`.
//! - `release`: releases what `lock` took, answers `released`.
//! - `queue <name> <task>`: a task of that number waits for the fair mutex, keeps it for a moment, releases it, and answers
//!   `done <task>`.
//! - `permits <name> <limit> <tasks> <ms> <lease ms>`: so many tasks acquire one or more permits of a semaphore and release them,
//!   again and again for so long; answers `permits <grants> <grants of more than one>`.
//!
//! An `error …` line says what went wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use lock_runtime::acquire::Acquire;
use lock_runtime::{Lease, LockClient, LockOptions, Semaphore};
use lock_tests::history::{Recorder, Share};
use lock_tests::witness::{Witness, Witnessed};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, sleep};

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

fn watched(lease: &str) -> Result<LockOptions, Failure> {
    Ok(LockOptions::new().lease(Lease::Watchdog(millis(lease)?)))
}

/// Has an effect at the start and at the end of that time.
async fn works(held: &mut Witnessed<'_>, time: Duration) {
    held.effect();
    sleep(time).await;
    held.effect();
}

/// All grants to one task, and those of more than one permit.
async fn permits(
    recorder: Arc<Recorder>,
    semaphore: Semaphore,
    name: String,
    limit: u32,
    task: u64,
    until: Instant,
) -> Result<(u64, u64), Failure> {
    let (mut grants, mut of_several) = (0, 0);
    while Instant::now() < until {
        let count = fastrand::u32(1..=limit.min(3));
        let witness = Witness::new(&recorder, task, &name, Share::Permits { count, limit });
        let mut held = witness.acquire(semaphore.acquire_many(count)).await?;
        grants += 1;
        of_several += u64::from(count > 1);
        works(&mut held, Duration::from_millis(fastrand::u64(0..3))).await;
        held.release().await?;
    }
    Ok((grants, of_several))
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
                let (share, acquire) = self.acquire(kind, name, watched(lease)?)?;
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
            ["lock-at-least", name, ms] => {
                let options = LockOptions::new().at_least(millis(ms)?);
                self.keep(kept, "mutex", name, options).await?;
            }
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
            ["permits", name, limit, tasks, ms, lease] => {
                let (limit, until) = (limit.parse()?, Instant::now() + millis(ms)?);
                let semaphore = self.client.semaphore(name, limit).with(watched(lease)?);
                let tasks = (0..tasks.parse()?).map(|task| {
                    let (recorder, name) = (Arc::clone(&self.recorder), name.to_owned());
                    tokio::spawn(permits(recorder, semaphore.clone(), name, limit, task, until))
                });
                let tasks = try_join_all(tasks.collect::<Vec<_>>());
                meanwhile(async move {
                    let grants = tasks.await?.into_iter().collect::<Result<Vec<_>, _>>()?;
                    let several: u64 = grants.iter().map(|(_, several)| several).sum();
                    println!(
                        "permits {} {several}",
                        grants.iter().map(|(all, _)| all).sum::<u64>()
                    );
                    Ok(())
                });
            }
            _ => return Err(format!("there is no such command: {words:?}").into()),
        }
        Ok(())
    }

    fn acquire(
        &self,
        kind: &str,
        name: &str,
        options: LockOptions,
    ) -> Result<(Share, Acquire), Failure> {
        let client = &self.client;
        Ok(match kind {
            "mutex" => (Share::Exclusive, client.mutex(name).with(options).lock()),
            "fair" => (Share::Exclusive, client.fair_mutex(name).with(options).lock()),
            "read" => (Share::Readers, client.rw_lock(name).with(options).read()),
            "write" => (Share::Exclusive, client.rw_lock(name).with(options).write()),
            "semaphore" => {
                let share = Share::Permits { count: 1, limit: 1 };
                (share, client.semaphore(name, 1).with(options).acquire())
            }
            _ => return Err(format!("there is no kind {kind}").into()),
        })
    }

    /// Holds the lock until it is lost or the process is killed.
    fn hold(&self, name: &str, share: Share, acquire: Acquire) {
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
        let (share, acquire) = self.acquire(kind, name, options)?;
        let witness = Box::leak(Box::new(Witness::new(&self.recorder, KEEPER, name, share)));
        let held = witness.acquire(acquire).await?;
        println!("locked {}", kept.insert(held).guard().token());
        Ok(())
    }
}
