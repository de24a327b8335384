//! Functions that return `impl Future`, or a future in a pinned box, also by the name of an alias: the whole of the body is
//! under the lock.

use std::cell::Cell;
use std::future::ready;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use lock_runtime::{LockClient, LockError, distributed_lock};

static STARTED: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "f:{id}", wait = none)]
fn sent(id: u64) -> impl Future<Output = Result<u64, LockError>> + Send + 'static {
    STARTED.fetch_add(1, Ordering::Relaxed);
    let next = id + 1;
    async move { Ok(next) }
}

#[distributed_lock(key = "f:{id}", guard = hold, wait = none)]
fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    STARTED.fetch_add(1, Ordering::Relaxed);
    assert!(!hold.is_lost());
    Box::pin(async move { Ok(id + 1) })
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
fn no_block() -> impl Future<Output = Result<u8, LockError>> {
    early(true)
}

#[distributed_lock(key = "f")]
fn local(cell: &Cell<u8>) -> impl Future<Output = Result<(), LockError>> + use<'_> {
    cell.set(cell.get() + 1);
    ready(Ok(()))
}

#[distributed_lock(key = "b")]
fn alias<'a>(names: &'a mut Vec<String>) -> BoxFuture<'a, Result<&'a String, LockError>> {
    names.push("x".to_owned());
    async move { Ok(&names[0]) }.boxed()
}

#[distributed_lock(key = "b")]
fn local_alias(value: std::rc::Rc<u8>) -> LocalBoxFuture<'static, Result<u8, LockError>> {
    async move { Ok(*value) }.boxed_local()
}

#[distributed_lock(key = "b")]
#[distributed_lock(key = "c", on_busy = fallback(sum_of_nothing))]
fn recursive(depth: u64) -> BoxFuture<'static, Result<u64, LockError>> {
    Box::pin(
        async move { if depth == 0 { Ok(0) } else { Ok(depth + recursive(depth - 1).await?) } },
    )
}

async fn sum_of_nothing(_: u64) -> Result<u64, LockError> {
    Ok(0)
}

#[distributed_lock(key = "b:{id}")]
fn unnamed(id: u64) -> Pin<Box<impl Future<Output = Result<u64, LockError>>>> {
    Box::pin(async move { Ok(id) })
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

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            // Nothing of a body runs before its lock is there; a pointer to such a function is one as before.
            let handlers: [fn(u64) -> BoxFuture<'static, Result<u64, LockError>>; 2] =
                [|id| sent(id).boxed(), boxed];
            for (at, call) in (0..).zip(handlers) {
                let future = call(1);
                assert_eq!(STARTED.load(Ordering::Relaxed), at);
                let task = tokio::spawn(lock_runtime::scope::inherit(future));
                assert_eq!(task.await.expect("does not panic")?, 2);
                assert_eq!(STARTED.load(Ordering::Relaxed), at + 1);
                let held = client.mutex("f:1").lock().await?;
                assert!(call(1).await.unwrap_err().is_busy());
                assert_eq!(STARTED.load(Ordering::Relaxed), at + 1);
                held.release().await?;
            }
            let mut log = vec![];
            assert!(borrowed("x", &mut log).await? > 0);
            assert_eq!(log, ["x", "x"]);
            assert_eq!((early(true).await?, early(false).await?, no_block().await?), (0, 1, 0));
            let cell = Cell::new(1);
            local(&cell).await?;
            assert_eq!(cell.get(), 2);
            assert_eq!(alias(&mut vec![]).await?, "x");
            assert_eq!(local_alias(std::rc::Rc::new(5)).await?, 5);
            assert_eq!((recursive(10).await?, unnamed(6).await?), (55, 6));
            let mut shop = Shop { sold: 1 };
            assert_eq!((shop.open(4).await?, shop.close().await?), (5, 1));
            Ok(())
        })
        .await
}
