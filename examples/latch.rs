//! A service takes no request before three workers, in processes of their own, have loaded their part of the data.
//!
//! ```sh
//! cargo run --example latch
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example latch    # the same through a Redis
//! ```

use std::error::Error;
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::{LockClient, LockError, LockOptions};
use tokio::task::JoinSet;
use tokio::time::sleep;

const PARTS: u32 = 3;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A latch has no lease: the count of a run that was killed stays. So each run has a name of its own.
    let name = format!("loaded:{}", std::process::id());
    let store = MemoryStore::new();
    let service = client(&store).await?;

    // Set the count before anything waits: a latch without one is open.
    let loaded = service.latch(&name);
    loaded.try_set_count(PARTS).await?;

    let mut workers = JoinSet::new();
    for part in 1..=PARTS {
        workers.spawn(load(client(&store).await?, name.clone(), part));
    }
    println!("service: waits for {} parts", loaded.count().await?);

    // A worker may die before it has counted down, so the wait has an end.
    let within_a_minute = LockOptions::new().wait(Duration::from_secs(60));
    loaded.with(within_a_minute).reached().await?;
    println!("service: takes requests");

    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    service.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Loads a part, as a worker, and counts the latch down.
async fn load(client: LockClient, name: String, part: u32) -> Result<(), LockError> {
    sleep(Duration::from_millis(200) * part).await;
    println!("worker {part}: has loaded its part");
    client.latch(&name).count_down().await?;
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// A client, as another process would have it: of the Redis at `REDIS_URL`, or of the store in memory.
async fn client(store: &MemoryStore) -> Result<LockClient, LockError> {
    match std::env::var("REDIS_URL") {
        Ok(url) => LockClient::connect(&url).await,
        Err(_) => LockClient::builder().memory(store.clone()),
    }
}
