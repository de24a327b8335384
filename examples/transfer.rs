//! Two processes transfer money between the same two accounts in opposite directions.
//!
//! ```sh
//! cargo run --example transfer
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example transfer    # the same through a Redis
//! ```
//!
//! A process that locks one account and then the other waits for a process that locks them the other way round: a
//! deadlock, which lasts until a wait ends. `keys` locks both accounts or none, so the order of the arguments is free.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::{LockClient, LockError, distributed_lock};
use tokio::join;
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep};

struct Account {
    id: &'static str,
    cents: AtomicI64,
}

/// Takes a moment between the reads and the writes: without locks, money is lost or made.
async fn post(from: &Account, to: &Account, cents: i64) {
    let (left, new) = (from.cents.load(SeqCst) - cents, to.cents.load(SeqCst) + cents);
    sleep(Duration::from_millis(2)).await;
    from.cents.store(left, SeqCst);
    to.cents.store(new, SeqCst);
}

#[distributed_lock(keys = ["account:{from.id}", "account:{to.id}"], wait = "20s", client = locks)]
async fn transfer(
    locks: &LockClient,
    from: &Account,
    to: &Account,
    cents: i64,
) -> Result<(), LockError> {
    post(from, to, cents).await;
    Ok(())
}

/// The wrong way. `both` waits until each of the two transfers has its first lock.
async fn transfer_in_two_steps(
    locks: &LockClient,
    from: &Account,
    to: &Account,
    both: &Barrier,
) -> Result<(), LockError> {
    let second = locks.mutex(format!("account:{}", to.id)).wait(Duration::from_millis(500));
    let in_second_lock = async {
        both.wait().await;
        second.run(post(from, to, 1)).await
    };
    locks.mutex(format!("account:{}", from.id)).run(in_second_lock).await?
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (one, other) = two_processes().await?;
    let account = |id| Arc::new(Account { id, cents: AtomicI64::new(1_000) });
    let (ada, bob) = (account("ada"), account("bob"));

    let both = Barrier::new(2);
    let there = transfer_in_two_steps(&one, &ada, &bob, &both);
    let back = transfer_in_two_steps(&other, &bob, &ada, &both);
    let (there, back) = join!(there, back);
    for failure in [there, back].into_iter().filter_map(Result::err) {
        println!("one lock after the other: {failure}");
    }

    let start = Instant::now();
    let there = async {
        for _ in 0..50 {
            transfer(&one, &ada, &bob, 7).await?;
        }
        Ok::<_, LockError>(())
    };
    let back = async {
        for _ in 0..50 {
            transfer(&other, &bob, &ada, 4).await?;
        }
        Ok::<_, LockError>(())
    };
    let (there, back) = join!(there, back);
    there?;
    back?;
    let (ada, bob) = (ada.cents.load(SeqCst), bob.cents.load(SeqCst));
    println!("both locks or none: 100 transfers in {:.0?}", start.elapsed());
    println!("ada has {ada}, bob has {bob}, together {}", ada + bob);
    for client in [one, other] {
        client.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// Two clients, as two processes would have them: of the Redis at `REDIS_URL`, or of one store in memory.
async fn two_processes() -> Result<(LockClient, LockClient), LockError> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return Ok((LockClient::connect(&url).await?, LockClient::connect(&url).await?));
    }
    let store = MemoryStore::new();
    let peer = || LockClient::builder().memory(store.clone());
    Ok((peer()?, peer()?))
}
