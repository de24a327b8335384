//! A process that takes locks when told to, for tests that stop and kill processes.
//!
//! `lock_worker <redis url> <history directory>`, then one command a line:
//!
//! - `hold <name> <lease ms>`: takes the lock with a watchdog lease, answers `held <token>`, and
//!   records an effect every few milliseconds under it; answers `lost` when that ends.
//! - `hold-unchecked <name> <lease ms>`: the same with effects that nothing stops at the deadline.
//! - `hammer <name> <tasks> <ms>`: that many tasks hold the lock in turn, for 0 or 1 ms, for that long; answers
//!   `hammered <grants> <fewest> <most>` by task.
//! - `lock <name>`: takes the lock, answers `locked <token>`, and keeps it.
//! - `lock <kind> <name>`: the same for `mutex`, `fair`, `read`, `write` or `semaphore` (one permit).
//! - `lock-at-least <name> <ms>`: takes the lock to be kept at least so long, answers `locked <token>`.
//! - `inside <name> <ms>`: waits so long at most for a second lock inside of what `lock` took, releases both, and answers
//!   `nested` or `gave up`.
//! - `release`: releases what `lock` took, answers `released`.
//!
//! - `take …`, `permits …`: see `permits`.
//! - `rw-read <name> <lease ms>`, `rw-write <name> <lease ms>`: takes that side with a watchdog lease, answers
//!   `reading <token>` or `writing <token>`, and keeps it.
//!
//! What it does is in the history; an `error …` line says what went wrong.

#[path = "lock_worker/permits.rs"]
mod permits;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{FencingToken, Lease, LockClient, LockError, LockGuard, LockOptions};
use lock_tests::history::{Recorder, Share};
use lock_tests::witness::{Witness, Witnessed};
use redis::IntoConnectionInfo as _;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, sleep};

/// A lock that a command has acquired and that is kept until another one releases it.
type Kept = Option<Witnessed<'static>>;

/// The number of the task that keeps it; others count from zero.
const KEEPER: u64 = 1 << 32;

/// How often the renewals of a kept lock are recorded: more often than a lease can have been renewed twice.
const RENEWALS_EVERY: Duration = Duration::from_millis(50);

/// How often a holder has an effect.
const EFFECT_EVERY: Duration = Duration::from_millis(2);

type Failure = Box<dyn std::error::Error + Send + Sync>;

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
        return Err("usage: lock_worker <redis url> <history directory>".into());
    };
    let worker = Worker {
        client: LockClient::connect(&url).await?,
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
            [how @ ("hold" | "hold-unchecked"), name, lease] => {
                let lease = Lease::Watchdog(Duration::from_millis(lease.parse()?));
                let (worker, name, checked) = (self.clone(), name.to_owned(), how == "hold");
                beside(async move { worker.hold(&name, lease, checked).await });
            }
            ["hammer", name, tasks, ms] => {
                let (worker, name) = (self.clone(), name.to_owned());
                let (tasks, time) = (tasks.parse()?, Duration::from_millis(ms.parse()?));
                beside(async move { worker.hammer(&name, tasks, time).await });
            }
            ["lock", name] => {
                let mutex = self.client.mutex(name);
                let token = self.keep(held, name, Share::Exclusive, mutex.lock()).await?;
                println!("locked {token}");
            }
            ["take", name, limit, permits, lease] => {
                let (worker, name) = (self.clone(), name.to_owned());
                let (limit, permits, lease) = (limit.parse()?, permits.parse()?, lease.parse()?);
                beside(async move { worker.take(&name, limit, permits, lease).await });
            }
            ["permits", name, limit, tasks, ms, lease] => {
                let (worker, name) = (self.clone(), name.to_owned());
                let (limit, tasks) = (limit.parse()?, tasks.parse()?);
                let (ms, lease) = (ms.parse()?, lease.parse()?);
                beside(async move { worker.permits(&name, limit, tasks, ms, lease).await });
            }
            ["lock", kind, name] => {
                let share = match kind {
                    "read" => Share::Readers,
                    "semaphore" => Share::Permits { count: 1, limit: 1 },
                    _ => Share::Exclusive,
                };
                let token = self.keep(held, name, share, self.take_kind(kind, name)).await?;
                println!("locked {token}");
            }
            ["lock-at-least", name, ms] => {
                let at_least = Duration::from_millis(ms.parse()?);
                let options = LockOptions::new().at_least(at_least);
                let mutex = self.client.mutex(name).with(options);
                let token = self.keep(held, name, Share::Exclusive, mutex.lock()).await?;
                println!("locked {token}");
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
            [side @ ("rw-read" | "rw-write"), name, lease] => {
                let lease = Lease::Watchdog(Duration::from_millis(lease.parse()?));
                let lock = self.client.rw_lock(name).with(LockOptions::new().lease(lease));
                if side == "rw-read" {
                    let token = self.keep(held, name, Share::Readers, lock.read()).await?;
                    println!("reading {token}");
                } else {
                    let token = self.keep(held, name, Share::Exclusive, lock.write()).await?;
                    println!("writing {token}");
                }
            }
            _ => return Err(format!("no such command: {line}").into()),
        }
        Ok(())
    }

    /// Acquires a lock. Its witness lives as long as the process.
    async fn keep<G: Into<LockGuard>>(
        &self,
        held: &mut Kept,
        name: &str,
        share: Share,
        acquire: impl Future<Output = Result<G, LockError>>,
    ) -> Result<FencingToken, LockError> {
        let witness = Box::leak(Box::new(Witness::new(&self.recorder, KEEPER, name, share)));
        let kept = witness.acquire(acquire).await?;
        Ok(held.insert(kept).guard().token())
    }

    async fn take_kind(&self, kind: &str, name: &str) -> Result<LockGuard, LockError> {
        match kind {
            "mutex" => self.client.mutex(name).lock().await,
            "fair" => self.client.fair_mutex(name).lock().await,
            "read" => self.client.rw_lock(name).read().await,
            "write" => self.client.rw_lock(name).write().await,
            "semaphore" => {
                let permit = self.client.semaphore(name, 1).acquire().await?;
                Ok(permit)
            }
            _ => Err(LockError::InvalidOptions(format!("there is no kind {kind}"))),
        }
    }

    async fn hold(&self, name: &str, lease: Lease, checked: bool) -> Result<(), Failure> {
        let options = LockOptions::new().lease(lease);
        let witness = Witness::new(&self.recorder, 0, name, Share::Exclusive);
        let held = witness.acquire(self.client.mutex(name).with(options).lock()).await?;
        println!("held {}", held.guard().token());
        println!("lost {}", held.effects(EFFECT_EVERY, checked).await);
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
}
