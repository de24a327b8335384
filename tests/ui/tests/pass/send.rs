//! The future is `Send` when the body and its result are, and a small constant larger.

use std::rc::Rc;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};

#[distributed_lock(key = "{name}")]
async fn sent(name: String) -> Result<String, LockError> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(name)
}

#[distributed_lock(key = "here")]
async fn local(value: Rc<u64>) -> Result<u64, LockError> {
    tokio::task::yield_now().await;
    Ok(*value)
}

async fn large(bytes: &[u8; 4096]) -> Result<usize, LockError> {
    let mine = *bytes;
    tokio::task::yield_now().await;
    Ok(mine.len())
}

#[distributed_lock(key = "large")]
async fn large_and_locked(bytes: &[u8; 4096]) -> Result<usize, LockError> {
    let mine = *bytes;
    tokio::task::yield_now().await;
    Ok(mine.len())
}

#[distributed_lock(key = "large", guard = hold)]
async fn large_with_guard(bytes: &[u8; 4096]) -> Result<usize, LockError> {
    let mine = *bytes;
    tokio::task::yield_now().await;
    assert!(!hold.is_lost());
    Ok(mine.len())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            assert_eq!(
                tokio::spawn(lock_runtime::scope::inherit(sent("a".into())))
                    .await
                    .expect("does not panic")?,
                "a"
            );
            assert_eq!(local(Rc::new(3)).await?, 3);

            let bytes = [0; 4096];
            let plain = size_of_val(&large(&bytes));
            let locked = large_and_locked(&bytes);
            assert!(size_of_val(&locked) < plain + 1024, "{} {plain}", size_of_val(&locked));
            let with_guard = large_with_guard(&bytes);
            assert!(
                size_of_val(&with_guard) < plain + 1024,
                "{} {plain}",
                size_of_val(&with_guard)
            );
            assert_eq!(locked.await?, with_guard.await?);
            Ok(())
        })
        .await
}
