//! Functions that return `impl Future`: the whole of the body is under the lock.

use std::cell::Cell;
use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt as _;
use lock_runtime::{LockClient, LockError, distributed_lock};

static STARTED: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "f:{id}", wait = none)]
fn sent(id: u64) -> impl Future<Output = Result<u64, LockError>> + Send + 'static {
    STARTED.fetch_add(1, Ordering::Relaxed);
    let next = id + 1;
    async move { Ok(next) }
}

#[distributed_lock(key = "f:{name}", guard = hold)]
fn borrowed<'a>(
    name: &'a str,
    log: &mut Vec<&'a str>,
) -> impl Future<Output = Result<u64, LockError>> {
    log.push(name);
    async move {
        tokio::task::yield_now().await;
        log.push(name);
        Ok(hold.token().get())
    }
}

#[distributed_lock(key = "f")]
fn early(empty: bool) -> impl Future<Output = Result<u8, LockError>> {
    if empty {
        return ready(Ok(0)).left_future();
    }
    async { Ok(1) }.right_future()
}

#[distributed_lock(key = "f")]
fn local(cell: &Cell<u8>) -> impl Future<Output = Result<(), LockError>> + use<'_> {
    cell.set(cell.get() + 1);
    ready(Ok(()))
}

#[distributed_lock(key = "f", on_busy = skip)]
fn skipped() -> impl Future<Output = Option<u8>> {
    async { Some(1) }
}

#[distributed_lock(key = "f")]
fn no_block() -> impl Future<Output = Result<u8, LockError>> {
    early(true)
}

trait Till {
    fn open(&mut self, id: u64) -> impl Future<Output = Result<u64, LockError>> + Send;

    #[distributed_lock(key = "till")]
    fn close(&self) -> impl Future<Output = Result<u64, LockError>> + Send
    where
        Self: Sync,
    {
        async { Ok(1) }
    }
}

struct Shop {
    sold: u64,
}

impl Till for Shop {
    #[distributed_lock(key = "{self.sold}:{id}")]
    fn open(&mut self, id: u64) -> impl Future<Output = Result<u64, LockError>> + Send {
        self.sold += id;
        async { Ok(self.sold) }
    }
}

fn is_send<T: Send>(future: T) -> T {
    future
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            let future = is_send(sent(1));
            assert_eq!(STARTED.load(Ordering::Relaxed), 0);
            assert_eq!(
                tokio::spawn(lock_runtime::scope::inherit(future))
                    .await
                    .expect("does not panic")?,
                2
            );
            assert_eq!(STARTED.load(Ordering::Relaxed), 1);
            let held = client.mutex("f:1").lock().await?;
            assert!(sent(1).await.unwrap_err().is_busy());
            assert_eq!(STARTED.load(Ordering::Relaxed), 1);
            held.release().await?;

            let mut log = vec![];
            assert!(borrowed("x", &mut log).await? > 0);
            assert_eq!(log, ["x", "x"]);
            assert_eq!((early(true).await?, early(false).await?, no_block().await?), (0, 1, 0));
            let cell = Cell::new(1);
            local(&cell).await?;
            assert_eq!(cell.get(), 2);
            assert_eq!(skipped().await, Some(1));
            let mut shop = Shop { sold: 1 };
            assert_eq!(is_send(shop.open(4)).await?, 5);
            assert_eq!(is_send(shop.close()).await?, 1);
            Ok(())
        })
        .await
}
