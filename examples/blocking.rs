//! A command-line program without async: threads take numbers from a file, without a lock and with one.
//!
//! Run it with `cargo run --example blocking`. It needs no Redis. With one, several processes can take numbers from one
//! file: `REDIS_URL=redis://127.0.0.1:6379 cargo run --example blocking -- /tmp/numbers`, in two terminals at once.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Returns the next number: reads, takes a moment, writes. Two calls at once return the same one.
fn next(file: &Path) -> Outcome<u64> {
    let number = fs::read_to_string(file).unwrap_or_default().trim().parse().unwrap_or(0) + 1;
    thread::sleep(Duration::from_millis(1));
    fs::write(file, number.to_string())?;
    Ok(number)
}

/// The same, one call at a time for each file, across all processes that share the store.
#[distributed_lock(key = "numbers:{name}", wait = "10s")]
fn next_locked(name: &str, file: &Path) -> Outcome<u64> {
    next(file)
}

/// A body that takes longer cannot be stopped: it asks before each step whether it still has the lock.
fn add_up(numbers: &[u64], hold: &LockGuard) -> Result<u64, LockError> {
    let mut sum = 0;
    for number in numbers {
        hold.check()?;
        sum += number;
    }
    Ok(sum)
}

fn main() -> Outcome<()> {
    let client = match env::var("REDIS_URL") {
        Ok(url) => LockClient::builder().connect_blocking(&url)?,
        Err(_) => LockClient::in_memory(),
    };
    client.install();
    let given = env::args().nth(1).map(PathBuf::from);
    let own = env::temp_dir().join(format!("numbers-{}", std::process::id()));
    let file = given.as_ref().unwrap_or(&own);
    let name = file.to_string_lossy();

    for (with, locked) in [("without", false), ("with", true)] {
        let take = || if locked { next_locked(&name, file) } else { next(file) };
        let taken = thread::scope(|scope| {
            let threads: Vec<_> = (0..50).map(|_| scope.spawn(take)).collect();
            let numbers = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            numbers.collect::<Outcome<Vec<_>>>()
        });
        let mut numbers = taken?;
        numbers.sort_unstable();
        numbers.dedup();
        println!("{with} the lock: 50 calls, {} different numbers", numbers.len());
        client.mutex("report").run_blocking(|hold| add_up(&numbers, hold))??;
    }
    if given.is_none() {
        fs::remove_file(&own)?;
    }
    // Waits for releases in flight; otherwise their locks stay until their leases end.
    client.blocking_shutdown(Duration::from_secs(5))?;
    Ok(())
}
