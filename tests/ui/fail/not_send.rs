use async_trait::async_trait;
use lock_runtime::{LockError, distributed_lock};
use std::pin::Pin;
use std::rc::Rc;

#[distributed_lock(key = "nightly")]
async fn job() -> Result<(), LockError> {
    let local = Rc::new(1);
    std::future::ready(()).await;
    drop(local);
    Ok(())
}

#[distributed_lock(key = "nightly")]
async fn returned() -> Result<Rc<u64>, LockError> {
    Ok(Rc::new(1))
}

#[distributed_lock(key = "nightly")]
async fn taken(local: Rc<u64>) -> Result<u64, LockError> {
    Ok(*local)
}

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

#[async_trait]
trait Till {
    #[distributed_lock(key = "till")]
    async fn open(&self) -> Result<u64, LockError> {
        let local = Rc::new(1);
        std::future::ready(()).await;
        Ok(*local)
    }
}

fn send<T: Send>(_: T) {}

fn main() {
    send(job());
    send(returned());
    send(taken(Rc::new(1)));
}
