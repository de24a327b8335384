//! Two processes take goods from a warehouse that knows only `get` and `put`. The layers around its client make that safe: a
//! lock for each article, and inside of the lock retries, each attempt with a timeout.
//!
//! ```sh
//! cargo run --example tower_client
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example tower_client    # the same through a Redis
//! ```
//!
//! The order of the layers matters. Retries are inside of the lock, so that no other process comes between two attempts.
//! The timeout is inside too, so that it does not count the wait for the lock.

use std::error::Error;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::fence::FenceGate;
use lock_runtime::store::MemoryStore;
use lock_runtime::{FencingToken, LockClient, LockKey, LockOptions};
use lock_tower::{HeldLock, LockLayer};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::retry::{Policy, RetryLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

/// A request takes one piece of the article of this number.
type Article = u32;

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

/// What is to happen after an attempt: up to nine more, at once.
#[derive(Clone)]
struct NineMore(u32);

impl Policy<Article, u32, BoxError> for NineMore {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Article, result: &mut Result<u32, BoxError>) -> Option<Ready<()>> {
        self.0 += 1;
        (result.is_err() && self.0 <= 9).then(|| ready(()))
    }

    fn clone_request(&mut self, article: &Article) -> Option<Article> {
        Some(*article)
    }
}

/// Takes 30 pieces one after the other, as one process.
async fn take(locks: LockClient, warehouse: Arc<Warehouse>) -> Result<(), BoxError> {
    let lock = LockLayer::new(locks.clone(), |article: &Article| {
        Ok(Some(LockKey::builder().text("article:").part(article).build()?))
    });
    let in_time = LockOptions::builder().wait(Duration::from_secs(20)).build()?;
    let client = service_fn(move |_: Article| {
        let warehouse = Arc::clone(&warehouse);
        async move {
            let token = HeldLock::current().ok_or("no lock layer around this")?.token();
            let left = warehouse.get().await? - 1;
            warehouse.put(left, token).await.map(|()| left)
        }
    });
    let stack = ServiceBuilder::new()
        .layer(lock.options(in_time))
        .layer(RetryLayer::new(NineMore(0)))
        .timeout(Duration::from_secs(5))
        .service(client);
    for _ in 0..30 {
        stack.clone().oneshot(7).await?;
    }
    locks.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (store, mut processes) = (MemoryStore::new(), JoinSet::new());
    let warehouse = Arc::new(Warehouse { pieces: AtomicU32::new(100), ..Warehouse::default() });
    for _ in 0..2 {
        // As two processes would have them: clients of one Redis, or of one store in memory.
        let locks = match std::env::var("REDIS_URL") {
            Ok(url) => LockClient::connect(&url).await?,
            Err(_) => LockClient::builder().store(store.peer())?,
        };
        processes.spawn(take(locks, Arc::clone(&warehouse)));
    }
    while let Some(process) = processes.join_next().await {
        process??;
    }
    let requests = warehouse.requests.load(SeqCst);
    let failed = requests / 5;
    println!("two processes took 30 pieces each: {requests} requests, {failed} of them failed");
    println!("of 100 pieces {} are left", warehouse.pieces.load(SeqCst));
    Ok(())
}
