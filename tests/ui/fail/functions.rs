use lock_runtime::{LockError, distributed_lock};
use std::pin::Pin;

#[distributed_lock(key = "nightly")]
extern "C" fn extern_function() {}

#[distributed_lock(key = "order:{id}")]
struct Order {
    id: u64,
}

#[distributed_lock(key = "order:{id}")]
impl Order {
    async fn pay(&self) {}
}

#[distributed_lock(key = "nightly")]
const fn constant() -> u64 {
    1
}

#[distributed_lock(key = "nightly")]
fn a_future_or_not() -> Result<Pin<Box<dyn Future<Output = ()> + Send>>, LockError> {
    Ok(Box::pin(async {}))
}

#[distributed_lock(key = "nightly")]
fn not_pinned() -> Box<dyn Future<Output = Result<(), LockError>> + Unpin> {
    Box::new(std::future::ready(Ok(())))
}

#[allow(async_fn_in_trait)]
trait Till {
    #[distributed_lock(key = "order:{id}")]
    async fn pay(&self, id: u64) -> Result<(), LockError>;
}

fn main() {}
