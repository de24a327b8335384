//! Three replicas of a service start the same job at the same times, and one of them runs it.
//!
//! ```sh
//! cargo run --example scheduled_job
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example scheduled_job    # the same through a Redis
//! ```
//!
//! The replicas' clocks differ, and the job is short: without `at_least` the lock would be free again when the last
//! replica starts the job.

use std::error::Error;
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::{LockClient, LockError, distributed_lock};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const TICKS: u32 = 2;
const BETWEEN_TICKS: Duration = Duration::from_secs(3);

struct Replica {
    number: u32,
    locks: LockClient,
    /// The delay of its clock.
    late: Duration,
}

impl Replica {
    /// Returns `None` if another replica runs the job, or has run it less than `at_least` ago.
    ///
    /// `at_least` is longer than the clocks differ, and shorter than the time between two ticks.
    #[distributed_lock(
        key = "report:nightly",
        on_busy = skip,
        at_least = "2s",
        client = self.locks
    )]
    async fn send_report(&self) -> Result<Option<&'static str>, LockError> {
        sleep(Duration::from_millis(10)).await;
        Ok(Some("sent the report"))
    }

    /// Starts the job at each tick.
    async fn run(self, start: Instant) -> Result<(), LockError> {
        for tick in 0..TICKS {
            sleep_until(start + BETWEEN_TICKS * tick + self.late).await;
            let outcome = self.send_report().await?.unwrap_or("skipped it");
            println!("tick {}: replica {} {outcome}", tick + 1, self.number);
        }
        self.locks.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (start, mut replicas) = (Instant::now(), JoinSet::new());
    for (number, locks) in (1..).zip(three_processes().await?) {
        let late = Duration::from_millis(100) * (3 - number);
        replicas.spawn(Replica { number, locks, late }.run(start));
    }
    while let Some(replica) = replicas.join_next().await {
        replica??;
    }
    Ok(())
}

/// Three clients, as three processes would have them: of the Redis at `REDIS_URL`, or of one store in memory.
async fn three_processes() -> Result<Vec<LockClient>, LockError> {
    let (store, mut clients) = (MemoryStore::new(), Vec::new());
    for _ in 0..3 {
        clients.push(match std::env::var("REDIS_URL") {
            Ok(url) => LockClient::connect(&url).await?,
            Err(_) => LockClient::builder().memory(store.clone())?,
        });
    }
    Ok(clients)
}
