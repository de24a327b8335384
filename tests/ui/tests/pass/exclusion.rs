//! What it is all for: no update is lost, and different keys do not wait for each other.

use std::cell::Cell;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};
use tokio::task::LocalSet;

thread_local! {
    static BALANCE: Cell<u64> = const { Cell::new(0) };
    static INSIDE: Cell<u64> = const { Cell::new(0) };
}

async fn read_and_write() {
    let balance = BALANCE.get();
    tokio::task::yield_now().await;
    BALANCE.set(balance + 1);
}

#[distributed_lock(key = "account:{id}")]
async fn deposit(id: u64) -> Result<(), LockError> {
    read_and_write().await;
    Ok(())
}

#[distributed_lock(key = "account:{id}")]
async fn meet(id: u64) -> Result<u64, LockError> {
    INSIDE.set(INSIDE.get() + 1);
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(INSIDE.get())
}

async fn fifty<F: Future<Output = ()> + 'static>(make: impl Fn() -> F) -> u64 {
    BALANCE.set(0);
    let tasks: Vec<_> = (0..50).map(|_| tokio::task::spawn_local(make())).collect();
    for task in tasks {
        task.await.expect("does not panic");
    }
    BALANCE.get()
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            let both = async {
                let locked = fifty(|| async { deposit(1).await.expect("deposits") }).await;
                (locked, fifty(read_and_write).await)
            };
            let (locked, unlocked) = LocalSet::new().run_until(both).await;
            assert_eq!(locked, 50);
            assert!(unlocked < 50);

            let (first, second) = tokio::join!(meet(1), meet(2));
            assert_eq!((first?, second?), (2, 2));
            // Siblings on one key exclude each other.
            INSIDE.set(0);
            let (first, second) = tokio::join!(meet(1), meet(1));
            assert_eq!((first?, second?), (1, 2));
            Ok(())
        })
        .await
}
