//! `guard` beside `when`: the body sees its hold if it has one.

use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

#[distributed_lock(key = "stock:{sku}", when = !dry_run, guard = hold, wait = none)]
async fn count(sku: &str, dry_run: bool) -> Result<Option<u64>, LockError> {
    let seen: Option<&LockGuard> = hold;
    tokio::task::yield_now().await;
    let _ = sku;
    Ok(seen.map(|hold| hold.token().get()))
}

#[distributed_lock(key = "stock:{sku}", when = !dry_run, guard = hold, on_busy = skip)]
async fn skips(sku: &str, dry_run: bool) -> Option<bool> {
    let _ = sku;
    Some(hold.is_some())
}

#[distributed_lock(key = "stock:{sku}", when = !dry_run, guard = hold, on_busy = fallback(cached))]
async fn falls_back(sku: &str, dry_run: bool) -> Result<&'static str, LockError> {
    let _ = sku;
    Ok(if hold.is_some() { "locked" } else { "dry" })
}

async fn cached(_: &str, _: bool) -> Result<&'static str, LockError> {
    Ok("cached")
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    assert_eq!(count("x", true).await?, None, "no client is needed");
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert!(count("x", false).await?.is_some());
            assert_eq!(skips("x", false).await, Some(true));
            assert_eq!(falls_back("x", false).await?, "locked");
            let held = client.mutex("stock:x").lock().await?;
            assert!(count("x", false).await.unwrap_err().is_busy());
            assert_eq!(count("x", true).await?, None);
            assert_eq!(skips("x", false).await, None);
            assert_eq!(skips("x", true).await, Some(false));
            assert_eq!(falls_back("x", false).await?, "cached");
            assert_eq!(falls_back("x", true).await?, "dry");
            held.release().await?;
            // It was given back although the body had it.
            assert!(client.mutex("stock:x").try_lock().await?.is_some());
            Ok(())
        })
        .await
}

mod on_a_thread {
    use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

    #[distributed_lock(key = "stock:{sku}", when = !dry_run, guard = hold, wait = none)]
    fn count(sku: &str, dry_run: bool) -> Result<Option<u64>, LockError> {
        let seen: Option<&LockGuard> = hold;
        let _ = sku;
        Ok(seen.map(|hold| hold.token().get()))
    }

    #[distributed_lock(key = "stock:{sku}", when = !dry_run, guard = hold, on_busy = fallback(cached))]
    fn falls_back(sku: &str, dry_run: bool) -> Result<&'static str, LockError> {
        let _ = sku;
        Ok(if hold.is_some() { "locked" } else { "dry" })
    }

    fn cached(_: &str, _: bool) -> Result<&'static str, LockError> {
        Ok("cached")
    }

    #[test]
    fn runs() -> Result<(), LockError> {
        assert_eq!(count("x", true)?, None);
        let client = LockClient::in_memory();
        let there = client.clone();
        client.scope_blocking(|| {
            assert!(count("x", false)?.is_some());
            assert_eq!(falls_back("x", false)?, "locked");
            let held = client.mutex("stock:x").blocking_lock()?;
            let asks = move || {
                there.scope_blocking(|| {
                    assert!(count("x", false).unwrap_err().is_busy());
                    assert_eq!(count("x", true)?, None);
                    assert_eq!(falls_back("x", false)?, "cached");
                    assert_eq!(falls_back("x", true)?, "dry");
                    Ok::<_, LockError>(())
                })
            };
            std::thread::spawn(asks).join().unwrap()?;
            held.blocking_release()
        })
    }
}
