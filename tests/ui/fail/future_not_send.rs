use std::pin::Pin;
use std::rc::Rc;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order")]
fn hidden() -> impl Future<Output = Result<u64, LockError>> + Send {
    let local = Rc::new(1);
    async move {
        std::future::ready(()).await;
        Ok(*local)
    }
}

#[distributed_lock(key = "order")]
fn boxed() -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    let local = Rc::new(1);
    Box::pin(async move {
        std::future::ready(()).await;
        Ok(*local)
    })
}

fn main() {}
