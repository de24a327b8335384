use std::rc::Rc;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
async fn returned() -> Result<Rc<u64>, LockError> {
    Ok(Rc::new(1))
}

#[distributed_lock(key = "nightly")]
async fn taken(local: Rc<u64>) -> Result<u64, LockError> {
    Ok(*local)
}

fn send<T: Send>(_: T) {}

fn main() {
    send(returned());
    send(taken(Rc::new(1)));
}
