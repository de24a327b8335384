//! A process that takes locks when told to, for tests that stop and kill processes.
//!
//! `lock_worker <redis url> <history directory> [<waiter lease ms>]`, then one command a line, where a kind is `mutex`, `fair`,
//! `read`, `write` or `semaphore` (one permit), and each lease is a watchdog's:
//!
//! - `hold <kind> <name> <lease ms>`: takes the lock, answers `held <token>`, and records an effect every few milliseconds under
//!   it; answers `lost` when that ends.
//! - `hold-unchecked <kind> <name> <lease ms>`: the same with effects that nothing stops at the deadline.
//! - `take <name> <limit> <permits> <lease ms>`: holds so many permits of a semaphore, in the same way.
//! - `queue <name> <task>`: a task of that number waits for the fair mutex, keeps it for a moment, releases it, and answers
//!   `done <task>`.
//! - `hammer <name> <tasks> <ms>`: that many tasks hold the lock in turn, for 0 or 1 ms, for that long; answers
//!   `hammered <grants> <fewest> <most>` by task.
//! - `permits <name> <limit> <tasks> <ms> <lease ms>`: that many tasks take one or more permits and give them back for that
//!   long; answers `permits <grants> <grants of more than one>`.
//! - `lock <name>`: takes the mutex, answers `locked <token>`, and keeps it.
//! - `lock <kind> <name> [<lease ms>]`: the same for a lock of that kind.
//! - `lock-at-least <name> <ms>`: takes the mutex to be kept at least so long, answers `locked <token>`.
//! - `inside <name> <ms>`: waits so long at most for a second mutex inside of what `lock` took, releases both, and answers
//!   `nested` or `gave up`.
//! - `release`: releases what `lock` took, answers `released`.
//!
//! What it does is in the history; an `error …` line says what went wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockOptions, Semaphore};
use lock_tests::history::{Recorder, Share};
use lock_tests::take;
use lock_tests::witness::{Witness, Witnessed};
use redis::IntoConnectionInfo as _;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, sleep};

/// A lock that a command has acquired and that is kept until another one releases it.
type Kept = Option<Witnessed<'static>>;

/// The number of the task that holds or keeps one; others count from zero.
const KEEPER: u64 = 1 << 32;

/// How often the renewals of a kept lock are recorded: more often than a lease can have been renewed twice.
const RENEWALS_EVERY: Duration = Duration::from_millis(50);

/// How often a holder has an effect.
const EFFECT_EVERY: Duration = Duration::from_millis(2);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn watched(lease: &str) -> Result<LockOptions, Failure> {
    Ok(LockOptions::new().lease(Lease::Watchdog(Duration::from_millis(lease.parse()?))))
}

/// With whom a holder of that kind shares its lock.
fn share(kind: &str) -> Share {
    match kind {
        "read" => Share::Readers,
        "semaphore" => Share::Permits { count: 1, limit: 1 },
        _ => Share::Exclusive,
    }
}

/// Goes on beside the next commands, and says what went wrong.
fn beside(task: impl Future<Output = Result<(), Failure>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = task.await {
            println!("error {error}");
        }
    });
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(dir)) = (args.next(), args.next()) else {
        return Err("usage: lock_worker <redis url> <history directory> [<waiter lease ms>]".into());
    };
    let mut builder = LockClient::builder();
    if let Some(lease) = args.next() {
        builder = builder.waiter_lease(Duration::from_millis(lease.parse()?));
    }
    let worker = Worker {
        client: builder.connect(&url).await?,
        values: values(&url).await?,
        recorder: Arc::new(Recorder::create(Path::new(&dir))?),
    };
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut held = None;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            () = sleep(RENEWALS_EVERY), if held.is_some() => {
                held.iter_mut().for_each(Witnessed::record_renewal);
                continue;
            }
        };
        let Some(line) = line else { break };
        if let Err(error) = worker.obey(&line, &mut held).await {
            println!("error {error}");
        }
    }
    Ok(())
}

/// A connection to a database of its own: tests look at what locks leave behind in the first one.
async fn values(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    let info = url.into_connection_info()?;
    let settings = info.redis_settings().clone().set_db(1);
    let client = redis::Client::open(info.set_redis_settings(settings))?;
    client.get_multiplexed_async_connection().await
}

#[derive(Clone)]
struct Worker {
    client: LockClient,
    /// To the values that locks protect.
    values: MultiplexedConnection,
    recorder: Arc<Recorder>,
}

impl Worker {
    async fn obey(&self, line: &str, held: &mut Kept) -> Result<(), Failure> {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [how @ ("hold" | "hold-unchecked"), kind, name, lease] => {
                let (worker, kind, name) = (self.clone(), kind.to_owned(), name.to_owned());
                let (options, checked) = (watched(lease)?, how == "hold");
                beside(async move {
                    let acquire = take(&worker.client, &kind, &name, options);
                    worker.hold(&name, share(&kind), acquire, checked).await
                });
            }
            ["take", name, limit, permits, lease] => {
                let (worker, name) = (self.clone(), name.to_owned());
                let (limit, count) = (limit.parse()?, permits.parse()?);
                let semaphore = self.client.semaphore(&name, limit).with(watched(lease)?);
                beside(async move {
                    let share = Share::Permits { count, limit };
                    worker.hold(&name, share, semaphore.acquire_many(count), true).await
                });
            }
            ["queue", name, task] => {
                let (worker, name, task) = (self.clone(), name.to_owned(), task.parse()?);
                beside(async move { worker.queue(&name, task).await });
            }
            ["hammer", name, tasks, ms] => {
                let (worker, name) = (self.clone(), name.to_owned());
                let (tasks, time) = (tasks.parse()?, Duration::from_millis(ms.parse()?));
                beside(async move { worker.hammer(&name, tasks, time).await });
            }
            ["permits", name, limit, tasks, ms, lease] => {
                let (worker, name) = (self.clone(), name.to_owned());
                let semaphore = self.client.semaphore(&name, limit.parse()?).with(watched(lease)?);
                let (tasks, time) = (tasks.parse()?, Duration::from_millis(ms.parse()?));
                beside(async move { worker.permits(&name, semaphore, tasks, time).await });
            }
            ["lock", name] => self.keep(held, "mutex", name, LockOptions::new()).await?,
            ["lock", kind, name] => self.keep(held, kind, name, LockOptions::new()).await?,
            ["lock", kind, name, lease] => self.keep(held, kind, name, watched(lease)?).await?,
            ["lock-at-least", name, ms] => {
                let options = LockOptions::new().at_least(Duration::from_millis(ms.parse()?));
                self.keep(held, "mutex", name, options).await?;
            }
            ["inside", name, ms] => {
                let outer = held.take().ok_or("nothing is locked")?;
                let inner = self.client.mutex(name).wait(Duration::from_millis(ms.parse()?));
                let witness = Witness::new(&self.recorder, KEEPER, name, Share::Exclusive);
                tokio::spawn(async move {
                    let nested = outer.guard().run(witness.acquire(inner.lock())).await;
                    let answer = if matches!(nested, Ok(Ok(_))) { "nested" } else { "gave up" };
                    drop((nested, outer));
                    println!("{answer}");
                });
            }
            ["release"] => {
                held.take().ok_or("nothing is locked")?.release().await?;
                println!("released");
            }
            _ => return Err(format!("no such command: {line}").into()),
        }
        Ok(())
    }

    /// Acquires a lock. Its witness lives as long as the process.
    async fn keep(
        &self,
        held: &mut Kept,
        kind: &str,
        name: &str,
        options: LockOptions,
    ) -> Result<(), Failure> {
        let witness = Box::leak(Box::new(Witness::new(&self.recorder, KEEPER, name, share(kind))));
        let kept = witness.acquire(take(&self.client, kind, name, options)).await?;
        println!("locked {}", held.insert(kept).guard().token());
        Ok(())
    }

    async fn hold(
        &self,
        name: &str,
        share: Share,
        acquire: impl Future<Output = Result<LockGuard, LockError>>,
        checked: bool,
    ) -> Result<(), Failure> {
        let witness = Witness::new(&self.recorder, KEEPER, name, share);
        let held = witness.acquire(acquire).await?;
        println!("held {}", held.guard().token());
        println!("lost {}", held.effects(EFFECT_EVERY, checked).await);
        Ok(())
    }

    async fn queue(&self, name: &str, task: u64) -> Result<(), Failure> {
        let witness = Witness::new(&self.recorder, task, name, Share::Exclusive);
        let mut held = witness.acquire(self.client.fair_mutex(name).lock()).await?;
        held.effect();
        // For others to come at the same time if they could.
        sleep(Duration::from_millis(1)).await;
        held.effect();
        held.release().await?;
        println!("done {task}");
        Ok(())
    }

    async fn hammer(&self, name: &str, tasks: u64, time: Duration) -> Result<(), Failure> {
        let until = Instant::now() + time;
        let hammer = |task: u64| {
            let (worker, name) = (self.clone(), name.to_owned());
            tokio::spawn(async move {
                let (mutex, mut grants) = (worker.client.mutex(&name), 0u64);
                let witness = Witness::new(&worker.recorder, task, &name, Share::Exclusive);
                let mut values = worker.values.clone();
                while Instant::now() < until {
                    let mut held = witness.acquire(mutex.lock()).await?;
                    let work = Duration::from_millis(fastrand::u64(0..2));
                    // Work for two overlapping holders to be seen at; now and then with a value, which takes a while.
                    if fastrand::u8(0..4) == 0 {
                        held.update(&mut values, work).await;
                    } else {
                        held.effect();
                        sleep(work).await;
                        held.effect();
                    }
                    grants += 1;
                    held.release().await?;
                }
                Ok::<_, Failure>(grants)
            })
        };
        let tasks: Vec<_> = (0..tasks).map(hammer).collect();
        let mut grants = Vec::new();
        for task in tasks {
            grants.push(task.await??);
        }
        let (fewest, most) = (grants.iter().min(), grants.iter().max());
        let sum: u64 = grants.iter().sum();
        println!("hammered {sum} {} {}", fewest.unwrap_or(&0), most.unwrap_or(&0));
        Ok(())
    }

    async fn permits(
        &self,
        name: &str,
        semaphore: Semaphore,
        tasks: u64,
        time: Duration,
    ) -> Result<(), Failure> {
        let (until, limit) = (Instant::now() + time, semaphore.limit());
        let task = |task: u64| {
            let (semaphore, name) = (semaphore.clone(), name.to_owned());
            let recorder = Arc::clone(&self.recorder);
            tokio::spawn(async move {
                let (mut grants, mut of_several) = (0, 0);
                while Instant::now() < until {
                    let count = fastrand::u32(1..=limit.min(3));
                    let share = Share::Permits { count, limit };
                    let witness = Witness::new(&recorder, task, &name, share);
                    let mut held = witness.acquire(semaphore.acquire_many(count)).await?;
                    grants += 1;
                    of_several += u64::from(count > 1);
                    held.effect();
                    sleep(Duration::from_millis(fastrand::u64(0..3))).await;
                    held.effect();
                    held.release().await?;
                }
                Ok::<_, Failure>((grants, of_several))
            })
        };
        let (mut grants, mut of_several) = (0, 0);
        for task in (0..tasks).map(task).collect::<Vec<_>>() {
            let (one, several) = task.await??;
            (grants, of_several) = (grants + one, of_several + several);
        }
        println!("permits {grants} {of_several}");
        Ok(())
    }
}
