use lock_runtime::{LockError, distributed_lock};
use std::pin::Pin;

#[distributed_lock(key = "order:{id}")]
async fn number(id: u64) -> u64 {
    id
}

#[distributed_lock(key = "nightly")]
async fn nothing() {}

#[distributed_lock(key = "nightly")]
async fn option() -> Option<u64> {
    None
}

type Answer = Result<u64, std::io::Error>;

#[distributed_lock(key = "order:{id}")]
async fn return_type_alias(id: u64) -> Answer {
    Ok(id)
}

struct PayError;

#[distributed_lock(key = "order:{id}")]
async fn return_type_without_from(id: u64) -> Result<u64, PayError> {
    Ok(id)
}

// However many locks there are, the mistake is one.
#[distributed_lock(key = "a:{id}")]
#[distributed_lock(key = "b:{id}", guard = hold)]
#[distributed_lock(key = "c:{id}", wait = none)]
async fn return_type_stacked(id: u64) -> u64 {
    id + hold.token().get()
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn return_type_cannot_skip_number() -> u64 {
    1
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn result() -> Result<u64, LockError> {
    Ok(1)
}

#[distributed_lock(key = "order:{id}")]
fn hidden(id: u64) -> impl Future<Output = u64> + Send {
    async move { id }
}

#[distributed_lock(key = "order:{id}")]
fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Option<u64>> + Send>> {
    Box::pin(async move { Some(id) })
}

#[distributed_lock(key = "order:{id}", on_busy = skip)]
fn cannot_skip(id: u64) -> impl Future<Output = u64> {
    std::future::ready(id)
}

fn main() {}
