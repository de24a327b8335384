//! A price list that many readers use at the same time, and that one writer renews when it is old.
//!
//! ```sh
//! cargo run --example rw_cache
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example rw_cache    # the same through a Redis
//! ```
//!
//! The list is in two parts that belong together, as two files or two keys of a cache would be. Readers of all processes
//! share the lock; the writer is alone, so that no reader sees a new part beside an old one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::{LockClient, LockError};
use tokio::task::JoinSet;
use tokio::time::sleep;

const ROUNDS: u32 = 3;
const READERS: u32 = 9;

/// The list, which all processes share: two parts, each of which is the number of its round.
#[derive(Default)]
struct Prices {
    net: AtomicU32,
    gross: AtomicU32,
    // What this program counts:
    reading: AtomicU32,
    most_reading: AtomicU32,
    renewals: AtomicU32,
    mixed: AtomicU32,
}

impl Prices {
    /// Reads for a moment. Returns the round of the older part.
    async fn read(&self) -> u32 {
        self.most_reading.fetch_max(self.reading.fetch_add(1, SeqCst) + 1, SeqCst);
        let net = self.net.load(SeqCst);
        sleep(Duration::from_millis(100)).await;
        let gross = self.gross.load(SeqCst);
        self.reading.fetch_sub(1, SeqCst);
        self.mixed.fetch_add(u32::from(net != gross), SeqCst);
        net.min(gross)
    }

    /// Fetches the list of this round, which takes long.
    async fn renew(&self, round: u32) {
        self.renewals.fetch_add(1, SeqCst);
        self.net.store(round, SeqCst);
        sleep(Duration::from_millis(100)).await;
        self.gross.store(round, SeqCst);
    }
}

/// Reads until the list is that of this round, and renews it unless another reader has.
async fn prices_of(round: u32, client: &LockClient, prices: &Prices) -> Result<u32, LockError> {
    let lock = client.rw_lock("prices");
    loop {
        let found = lock.run_read(prices.read()).await?;
        if found >= round {
            return Ok(found);
        }
        // Two readers that both became writers would wait for each other. So the read lock is released by now, and another
        // reader may renew the list before this one has the write lock: it has to look again.
        let renew = async {
            if prices.net.load(SeqCst) < round {
                prices.renew(round).await;
            }
        };
        lock.run_write(renew).await?;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (clients, prices) = (three_processes().await?, Arc::new(Prices::default()));
    for round in 1..=ROUNDS {
        let mut readers = JoinSet::new();
        for (_, client) in (0..READERS).zip(clients.iter().cycle()) {
            let (client, prices) = (client.clone(), Arc::clone(&prices));
            readers.spawn(async move { prices_of(round, &client, &prices).await });
        }
        while let Some(found) = readers.join_next().await {
            found??;
        }
        let most = prices.most_reading.swap(0, SeqCst);
        let renewals = prices.renewals.swap(0, SeqCst);
        println!("round {round}: {READERS} readers, {most} at the same time, {renewals} renewal");
    }
    println!("reads of a list that is half old: {}", prices.mixed.load(SeqCst));
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
