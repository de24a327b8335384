use std::rc::Rc;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
async fn job() -> Result<(), LockError> {
    let local = Rc::new(1);
    std::future::ready(()).await;
    drop(local);
    Ok(())
}

fn send<T: Send>(_: T) {}

fn main() {
    send(job());
}
