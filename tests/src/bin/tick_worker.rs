//! A replica of a service that has a scheduled job, for tests of what runs once per tick.
//!
//! `tick_worker <redis url> <at_least ms>`, then one command a line:
//!
//! - `long <tick> <delay µs>`: after the delay starts the job, which lasts until `end`.
//! - `short <tick> <delay µs>`: the same with a job that is over at once.
//! - `spaced <tick> <delay µs>`: the same, but its lock is kept for `at_least`.
//! - `end`: lets the long job end.
//!
//! A job that ran answers `ran <tick> <asked> <begun>` from inside and `done <tick> <when>` after its
//! lock was given back; one that was left to another replica answers `skipped <tick> <asked> <when>`.
//! Times are nanoseconds of the machine's monotonic clock, so the answers of all replicas are a history, which the test
//! checks itself: for one run of each tick, a rule that the checker of locks does not have.

use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};
use lock_tests::history::Stamp;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Notify;
use tokio::time::sleep;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(at_least)) = (args.next(), args.next()) else {
        return Err("usage: tick_worker <redis url> <at_least ms>".into());
    };
    LockClient::connect(&url).await?.install();
    let at_least = Duration::from_millis(at_least.parse()?);
    let replica = Arc::new(Replica { at_least, end: Notify::new() });
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["end"] => replica.end.notify_one(),
            [job, tick, delay] => {
                let (job, tick) = (job.to_owned(), tick.parse()?);
                let delay = Duration::from_micros(delay.parse()?);
                tokio::spawn(Arc::clone(&replica).start(job, tick, delay));
            }
            _ => println!("error no such command: {line}"),
        }
    }
    Ok(())
}

struct Replica {
    at_least: Duration,
    end: Notify,
}

impl Replica {
    async fn start(self: Arc<Self>, job: String, tick: u64, delay: Duration) {
        sleep(delay).await;
        let asked = Stamp::now();
        let outcome = match job.as_str() {
            "long" => self.long(tick, asked).await,
            "short" => self.short(tick, asked).await,
            "spaced" => self.spaced(tick, asked).await,
            _ => return println!("error no such job: {job}"),
        };
        match outcome {
            Ok(Some(())) => println!("done {tick} {}", Stamp::now()),
            Ok(None) => println!("skipped {tick} {asked} {}", Stamp::now()),
            Err(error) => println!("error {error}"),
        }
    }

    #[distributed_lock(key = "nightly-report", on_busy = skip)]
    async fn long(&self, tick: u64, asked: Stamp) -> Result<Option<()>, LockError> {
        report(tick, asked);
        self.end.notified().await;
        Ok(Some(()))
    }

    #[distributed_lock(key = "nightly-report", on_busy = skip)]
    async fn short(&self, tick: u64, asked: Stamp) -> Result<Option<()>, LockError> {
        report(tick, asked);
        Ok(Some(()))
    }

    #[distributed_lock(key = "nightly-report", on_busy = skip, at_least = self.at_least)]
    async fn spaced(&self, tick: u64, asked: Stamp) -> Result<Option<()>, LockError> {
        report(tick, asked);
        Ok(Some(()))
    }
}

fn report(tick: u64, asked: Stamp) {
    println!("ran {tick} {asked} {}", Stamp::now());
}
