//! Three processes call a service of another company that takes three calls at a time and refuses the fourth.
//!
//! ```sh
//! cargo run --example semaphore
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example semaphore    # the same through a Redis
//! ```
//!
//! With the semaphore the fourth call waits for one of the three to end, in whatever process it runs.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::{LockClient, LockError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// What the contract with the other company says.
const AT_A_TIME: u32 = 3;

const CALLS: u32 = 18;

/// The other company's service.
#[derive(Default)]
struct Translations {
    in_flight: AtomicU32,
    most: AtomicU32,
    refused: AtomicU32,
}

impl Translations {
    async fn call(&self) {
        let in_flight = self.in_flight.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(in_flight, SeqCst);
        if in_flight > AT_A_TIME {
            self.refused.fetch_add(1, SeqCst);
        }
        sleep(Duration::from_millis(50)).await;
        self.in_flight.fetch_sub(1, SeqCst);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clients = three_processes().await?;
    for (with, limited) in [("without", false), ("with", true)] {
        let (service, start) = (Arc::new(Translations::default()), Instant::now());
        let mut calls = JoinSet::new();
        for (_, client) in (0..CALLS).zip(clients.iter().cycle()) {
            let service = Arc::clone(&service);
            let permits = client.semaphore("translations", AT_A_TIME);
            calls.spawn(async move {
                if limited {
                    return permits.run(service.call()).await;
                }
                service.call().await;
                Ok(())
            });
        }
        while let Some(call) = calls.join_next().await {
            call??;
        }
        let (most, refused) = (service.most.load(SeqCst), service.refused.load(SeqCst));
        let took = start.elapsed();
        println!(
            "{with} the semaphore: {CALLS} calls, {most} in flight at most, {refused} refused, {took:.0?}"
        );
    }
    for client in clients {
        client.shutdown(Duration::from_secs(5)).await;
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
