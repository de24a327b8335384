use std::pin::Pin;

use lock_runtime::distributed_lock;

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
