//! A command-line program without async in its own code, for tests of blocking calls from process to process.
//!
//! `blocking <redis url> <history directory> <counter file> <rounds>`: adds one to the number in the file so many
//! times, each time under the lock `counter`, and prints the number of the last round. With `hold` for file and rounds, it
//! acquires the lock `held`, prints `held`, and checks the hold until it is lost; then it prints `lost`. With `fork`, and
//! loaded with the library of `lock_tests::preload::Fork`, it acquires the lock `held` and forks: the child prints the error of
//! each call of its parent's client, and the parent then uses its lock and its client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use lock_runtime::{
    Lease, LockClient, LockError, LockGuard, LockOptions, block_on, distributed_lock,
};
use lock_tests::history::{Recorder, Share};
use lock_tests::witness::Witness;

use super::Failure;

pub(super) fn run(url: &str, dir: &str, work: &[&str]) -> Result<(), Failure> {
    let client = LockClient::builder().connect_blocking(url)?;
    client.install();
    let recorder = Arc::new(Recorder::create(Path::new(dir))?);
    let witness = |name| Witness::new(&recorder, 0, name, Share::Exclusive);
    match work {
        ["hold"] => hold(&client, &witness("held"))?,
        ["fork"] => return fork(&client),
        [file, rounds] => {
            let (witness, mut last) = (witness("counter"), 0);
            for _ in 0..rounds.parse()? {
                last = witness.call_blocking(|| add_one(Path::new(file), &witness))??;
            }
            println!("{last}");
        }
        _ => return Err(format!("there is no such work: {work:?}").into()),
    }
    end(&client)
}

fn end(client: &LockClient) -> Result<(), Failure> {
    let report = client.blocking_shutdown(Duration::from_secs(5))?;
    if report.is_clean() {
        Ok(())
    } else {
        Err(format!("not everything was released: {report:?}").into())
    }
}

/// Reads, takes a moment, writes: an update in between is lost.
#[distributed_lock(key = "counter")]
fn add_one(file: &Path, witness: &Witness) -> Result<Result<u64, Failure>, LockError> {
    let mut holding = witness.is_inside();
    Ok((|| {
        let count = fs::read_to_string(file)?.trim().parse::<u64>()?;
        thread::sleep(Duration::from_millis(1));
        holding.will_write(count);
        fs::write(file, (count + 1).to_string())?;
        Ok(count + 1)
    })())
}

fn hold(client: &LockClient, witness: &Witness) -> Result<(), LockError> {
    let options = LockOptions::new().lease(Lease::Watchdog(Duration::from_secs(1)));
    let work = |hold: &LockGuard| {
        let mut holding = witness.is_inside();
        println!("held");
        while hold.check().is_ok() {
            holding.effect();
            thread::sleep(Duration::from_millis(1));
        }
        println!("lost");
    };
    match witness.call_blocking(|| client.mutex("held").with(options).run_blocking(work)) {
        Err(LockError::Lost { .. }) => Ok(()),
        other => other,
    }
}

fn fork(client: &LockClient) -> Result<(), Failure> {
    let parent = std::process::id();
    let guard = client.mutex("held").blocking_lock()?;
    let _ = std::os::unix::process::parent_id();
    if std::process::id() != parent {
        let refused = |call: &str, result: Result<(), LockError>| match result {
            Err(error) => println!("{call}: {error}"),
            Ok(()) => println!("{call}: no error"),
        };
        let (free, latch) = (client.mutex("free"), client.latch("latch"));
        refused("lock", free.blocking_lock().map(drop));
        refused("try_lock", block_on(free.try_lock()).map(drop));
        refused("multi lock", client.multi_lock(["a", "b"]).blocking_lock().map(drop));
        refused("count", block_on(latch.count()).map(drop));
        refused("reached", block_on(latch.reached()));
        refused("extend", block_on(guard.extend(Duration::from_secs(60))));
        refused("ready", block_on(client.ready()));
        refused("inspect", block_on(client.admin().inspect("held")).map(drop));
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        refused("lock in a runtime of the child", own.block_on(free.lock()).map(drop));
        refused("release", guard.blocking_release());
        refused("shutdown", client.blocking_shutdown(Duration::ZERO).map(drop));
        println!("end");
        // Nothing that the parent has is dropped here.
        std::process::exit(0);
    }
    // The child has ended when the test sends a line.
    std::io::stdin().read_line(&mut String::new())?;
    guard.check()?;
    guard.blocking_release()?;
    block_on(client.mutex("free").try_lock())?.ok_or("it is free")?.blocking_release()?;
    end(client)
}
