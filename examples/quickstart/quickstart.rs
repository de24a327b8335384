//! Fifty tasks add one to a counter that takes a moment to update, with a lock and without.
//!
//! Run it with `cargo run -p quickstart --example quickstart`. It needs no Redis; with one, only the line that
//! makes the client changes: `LockClient::connect("redis://127.0.0.1:6379").await?`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

#[derive(Default)]
struct Counter(AtomicU64);

/// Reads, takes a moment, writes: an update in between is lost.
async fn add_one(counter: &Counter) -> Result<(), LockError> {
    let seen = counter.0.load(Ordering::SeqCst);
    sleep(Duration::from_millis(1)).await;
    counter.0.store(seen + 1, Ordering::SeqCst);
    Ok(())
}

/// The same, one call at a time for each name, across all processes that share the store.
#[distributed_lock(key = "counter:{name}", wait = "5s")]
async fn add_one_locked(name: &str, counter: &Counter) -> Result<(), LockError> {
    add_one(counter).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = LockClient::in_memory();
    client.install();
    for (with, locked) in [("with", true), ("without", false)] {
        let (counter, start) = (Arc::new(Counter::default()), Instant::now());
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let counter = Arc::clone(&counter);
            calls.spawn(async move {
                if locked {
                    add_one_locked("visits", &counter).await
                } else {
                    add_one(&counter).await
                }
            });
        }
        while let Some(call) = calls.join_next().await {
            call??;
        }
        let (count, took) = (counter.0.load(Ordering::SeqCst), start.elapsed());
        println!("{with} the lock: 50 calls, {count} counted, {} lost, {took:.0?}", 50 - count);
    }
    // Waits for releases in flight; otherwise their locks stay until their leases end.
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
