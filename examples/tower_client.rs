//! Two processes take goods from a warehouse that knows only `get` and `put`. The layers around its client make that safe: a
//! lock for each article, and inside of the lock retries, each attempt with a timeout.
//!
//! ```sh
//! cargo run --example tower_client
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example tower_client    # the same through a Redis
//! ```
//!
//! The order matters: no other process comes between two attempts, and the timeout does not count the wait for the lock.

use std::error::Error;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::fence::FenceGate;
use lock_runtime::{FencingToken, LockClient, LockError, LockKey, LockOptions};
use lock_tower::{HeldLock, LockLayer, LockServiceError};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::retry::{Policy, RetryLayer};
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

/// The other side, which has one article. Every fifth request to it fails.
#[derive(Default)]
struct Warehouse {
    pieces: AtomicU32,
    requests: AtomicU32,
    fence: FenceGate,
}

impl Warehouse {
    async fn get(&self) -> Result<u32, BoxError> {
        self.answer().await?;
        Ok(self.pieces.load(SeqCst))
    }

    /// Refuses the write of an earlier holder that comes late.
    async fn put(&self, pieces: u32, token: FencingToken) -> Result<(), BoxError> {
        self.answer().await?;
        self.fence.admit(token)?;
        self.pieces.store(pieces, SeqCst);
        Ok(())
    }

    async fn answer(&self) -> Result<(), BoxError> {
        sleep(Duration::from_millis(2)).await;
        let number = self.requests.fetch_add(1, SeqCst) + 1;
        if number.is_multiple_of(5) { Err("try again".into()) } else { Ok(()) }
    }
}

type Client = BoxCloneService<u32, u32, BoxError>;

/// Up to nine more attempts, at once.
#[derive(Clone)]
struct NineMore(u32);

impl Policy<u32, u32, BoxError> for NineMore {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut u32, result: &mut Result<u32, BoxError>) -> Option<Ready<()>> {
        self.0 += 1;
        (result.is_err() && self.0 <= 9).then(|| ready(()))
    }

    fn clone_request(&mut self, article: &u32) -> Option<u32> {
        Some(*article)
    }
}

/// The client of the warehouse: takes a piece of the article of this number, and returns how many are left.
fn client(locks: LockClient, warehouse: Arc<Warehouse>) -> Result<Client, LockError> {
    let lock = LockLayer::new(locks, |article: &u32| {
        Ok(Some(LockKey::builder().text("article:").part(article).build()?))
    });
    let lock = lock.options(LockOptions::new().wait(Duration::from_secs(20)));
    let take = service_fn(move |_: u32| {
        let warehouse = Arc::clone(&warehouse);
        async move {
            let token = HeldLock::current().ok_or("no lock layer around this")?.token();
            let left = warehouse.get().await? - 1;
            warehouse.put(left, token).await.map(|()| left)
        }
    });
    let layers = ServiceBuilder::new().map_err(LockServiceError::into_boxed).layer(lock);
    let layers = layers.layer(RetryLayer::new(NineMore(0))).timeout(Duration::from_secs(5));
    Ok(layers.service(take).boxed_clone())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (store, mut processes) = (MemoryStore::new(), JoinSet::new());
    let warehouse = Arc::new(Warehouse { pieces: AtomicU32::new(100), ..Warehouse::default() });
    for _ in 0..2 {
        // As two processes would have them: clients of one Redis, or of one store in memory.
        let locks = match std::env::var("REDIS_URL") {
            Ok(url) => LockClient::connect(&url).await?,
            Err(_) => LockClient::builder().memory(store.clone())?,
        };
        let client = client(locks.clone(), Arc::clone(&warehouse))?;
        processes.spawn(async move {
            for _ in 0..30 {
                client.clone().oneshot(7).await?;
            }
            Ok::<_, BoxError>(locks.shutdown(Duration::from_secs(5)).await)
        });
    }
    while let Some(process) = processes.join_next().await {
        process??;
    }
    let requests = warehouse.requests.load(SeqCst);
    println!("2 processes took 30 pieces each: {requests} requests, {} failed", requests / 5);
    println!("of 100 pieces {} are left", warehouse.pieces.load(SeqCst));
    Ok(())
}
