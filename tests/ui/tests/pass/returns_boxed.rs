//! Functions that return a future in a pinned box, also by the name of an alias.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::{BoxFuture, FutureExt as _, LocalBoxFuture};
use lock_runtime::{LockClient, LockError, distributed_lock};

static STARTED: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "b:{id}", guard = hold)]
fn sent(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    STARTED.fetch_add(1, Ordering::Relaxed);
    assert!(!hold.is_lost());
    Box::pin(async move { Ok(id) })
}

#[distributed_lock(key("b:{}", name.len()))]
fn borrowed(name: &str) -> Pin<Box<dyn Future<Output = Result<usize, LockError>> + Send + '_>> {
    if name.is_empty() {
        return Box::pin(std::future::ready(Ok(0)));
    }
    Box::pin(async { Ok(name.len()) })
}

#[distributed_lock(key = "b")]
fn alias<'a>(names: &'a mut Vec<String>) -> BoxFuture<'a, Result<&'a String, LockError>> {
    names.push("x".to_owned());
    async move { Ok(&names[0]) }.boxed()
}

#[distributed_lock(key = "b")]
fn local(value: std::rc::Rc<u8>) -> LocalBoxFuture<'static, Result<u8, LockError>> {
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

struct Handlers(Vec<fn(u64) -> BoxFuture<'static, Result<u64, LockError>>>);

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            let future = sent(3);
            assert_eq!(STARTED.load(Ordering::Relaxed), 0);
            assert_eq!(
                tokio::spawn(lock_runtime::scope::inherit(future))
                    .await
                    .expect("does not panic")?,
                3
            );
            assert_eq!(STARTED.load(Ordering::Relaxed), 1);
            assert_eq!((borrowed("").await?, borrowed("four").await?), (0, 4));
            assert_eq!(alias(&mut vec![]).await?, "x");
            assert_eq!(local(std::rc::Rc::new(5)).await?, 5);
            for handler in Handlers(vec![recursive, sent]).0 {
                assert_eq!(handler(1).await?, 1);
            }
            assert_eq!(recursive(10).await?, 55);
            assert_eq!(unnamed(6).await?, 6);
            Ok(())
        })
        .await
}
