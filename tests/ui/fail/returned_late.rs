use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use lock_runtime::{LockError, distributed_lock};
use std::pin::Pin;
use tokio::task::JoinHandle;

#[distributed_lock(key = "feed")]
async fn stream() -> Result<impl Stream<Item = u64>, LockError> {
    Ok(futures_util::stream::empty())
}

#[distributed_lock(key = "feed")]
async fn boxed_stream() -> Result<BoxStream<'static, u64>, LockError> {
    Ok(Box::pin(futures_util::stream::empty()))
}

#[distributed_lock(key = "feed")]
async fn iterator() -> Result<Box<dyn Iterator<Item = u64> + Send>, LockError> {
    Ok(Box::new(0..3))
}

#[distributed_lock(key = "feed")]
async fn task() -> Result<JoinHandle<()>, LockError> {
    Ok(tokio::spawn(async {}))
}

#[distributed_lock(key = "feed")]
async fn events() -> Result<axum::response::Sse<BoxStream<'static, u64>>, LockError> {
    unimplemented!()
}

#[distributed_lock(key = "feed")]
async fn body() -> Result<axum::http::Response<axum::body::Body>, LockError> {
    unimplemented!()
}

#[distributed_lock(key = "feed", on_busy = skip)]
async fn future() -> Option<BoxFuture<'static, u64>> {
    None
}

#[distributed_lock(key = "feed")]
fn future_of_a_stream() -> impl Future<Output = Result<BoxStream<'static, u64>, LockError>> {
    async { Ok(Box::pin(futures_util::stream::empty()) as BoxStream<'static, u64>) }
}

#[distributed_lock(key = "feed")]
fn boxed_future_of_a_task() -> BoxFuture<'static, Result<JoinHandle<()>, LockError>> {
    Box::pin(async { Ok(tokio::spawn(async {})) })
}

#[distributed_lock(key = "feed")]
fn plain_stream() -> impl Stream<Item = u64> {
    futures_util::stream::empty()
}

#[distributed_lock(key = "feed")]
fn plain_iterator() -> Result<impl Iterator<Item = u64>, LockError> {
    Ok(0..3)
}

#[distributed_lock(key = "feed")]
fn plain_thread() -> Result<std::thread::JoinHandle<()>, LockError> {
    Ok(std::thread::spawn(|| {}))
}

struct ReportFuture(Pin<Box<dyn Future<Output = Result<u64, LockError>>>>);

// A struct, and no alias of a box.
#[distributed_lock(key = "feed")]
fn structure() -> ReportFuture {
    ReportFuture(Box::pin(async { Ok(1) }))
}

type PayFuture<'a> = BoxFuture<'a, Result<u64, LockError>>;

// An alias of a box: an attribute does not see more than its name.
#[distributed_lock(key = "feed")]
fn alias(id: &u64) -> PayFuture<'_> {
    Box::pin(async move { Ok(*id) })
}

fn main() {}
