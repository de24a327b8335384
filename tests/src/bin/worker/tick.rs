//! A replica of a service that has a scheduled job, for tests of what runs once per tick.
//!
//! `tick <redis url> <history directory> <at_least ms>`, then one command a line:
//!
//! - `long <tick> <delay µs>`: after the delay starts the job, which lasts until `end`.
//! - `short <tick> <delay µs>`: the same with a job that is over at once.
//! - `spaced <tick> <delay µs>`: the same, but its lock is kept for `at_least`.
//! - `end`: lets the long job end.
//!
//! A job that ran answers `ran <tick> <asked> <begun>` from inside and `done <tick> <when>` after its
//! lock was given back; one that was left to another replica answers `skipped <tick> <asked> <when>`.
//! Times are nanoseconds of the machine's monotonic clock. In the history, the task that a tick has is of its number. That
//! each tick runs once, which is no rule of locks, the test checks by the answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};
use lock_tests::history::{Recorder, Share, Stamp};
use lock_tests::witness::{Holding, Witness};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Failure;

#[tokio::main(worker_threads = 2)]
pub(super) async fn run(url: &str, dir: &str, at_least: &str) -> Result<(), Failure> {
    LockClient::connect(url).await?.install();
    let at_least = Duration::from_millis(at_least.parse()?);
    let recorder = Arc::new(Recorder::create(Path::new(dir))?);
    let replica = Arc::new(Replica { at_least, end: Notify::new(), recorder });
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
    recorder: Arc<Recorder>,
}

impl Replica {
    async fn start(self: Arc<Self>, job: String, tick: u64, delay: Duration) {
        sleep(delay).await;
        let run = Run {
            tick,
            asked: Stamp::now(),
            witness: Witness::new(&self.recorder, tick, "nightly-report", Share::Exclusive),
        };
        let asked = run.asked;
        let outcome = match job.as_str() {
            "long" => run.witness.call(self.long(&run)).await,
            "short" => run.witness.call(self.short(&run)).await,
            "spaced" => run.witness.call(self.spaced(&run)).await,
            _ => return println!("error no such job: {job}"),
        };
        match outcome {
            Ok(Some(())) => println!("done {tick} {}", Stamp::now()),
            Ok(None) => println!("skipped {tick} {asked} {}", Stamp::now()),
            Err(error) => println!("error {error}"),
        }
    }

    #[distributed_lock(key = "nightly-report", on_busy = skip)]
    async fn long(&self, run: &Run) -> Result<Option<()>, LockError> {
        let _inside = run.report();
        self.end.notified().await;
        Ok(Some(()))
    }

    #[distributed_lock(key = "nightly-report", on_busy = skip)]
    async fn short(&self, run: &Run) -> Result<Option<()>, LockError> {
        let _inside = run.report();
        Ok(Some(()))
    }

    #[distributed_lock(key = "nightly-report", on_busy = skip, at_least = self.at_least)]
    async fn spaced(&self, run: &Run) -> Result<Option<()>, LockError> {
        let _inside = run.report();
        Ok(Some(()))
    }
}

/// One start of the job.
struct Run {
    tick: u64,
    asked: Stamp,
    witness: Witness,
}

impl Run {
    /// What the job does under its lock, and the hold of it.
    fn report(&self) -> Holding<'_> {
        let mut inside = self.witness.is_inside();
        inside.effect();
        println!("ran {} {} {}", self.tick, self.asked, Stamp::now());
        inside
    }
}
