//! `guard` beside `when`: the body sees its hold if it has one.

use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

async fn cached(_: bool) -> Result<&'static str, LockError> {
    Ok("cached")
}

#[tokio::test]
async fn a_task() {
    let client = LockClient::in_memory();
    outcomes! { client, "stock";
        [key = "stock", when = !dry, guard = hold, wait = none] (dry: bool) -> Result<bool, LockError> {
            let seen: Option<&LockGuard> = hold;
            tokio::task::yield_now().await;
            Ok(seen.is_some())
        } (false) => Ok(true), Err(LockError::Busy { .. }),
        [key = "stock", when = !dry, guard = hold, wait = none] (dry: bool) -> Result<bool, LockError> {
            Ok(hold.is_some())
        } (true) => Ok(false), Ok(false),
        [key = "stock", when = !dry, guard = hold, on_busy = skip] (dry: bool) -> Option<bool> {
            Some(hold.is_some())
        } (false) => Some(true), None,
        [key = "stock", when = !dry, guard = hold, on_busy = skip] (dry: bool) -> Option<bool> {
            Some(hold.is_some())
        } (true) => Some(false), Some(false),
        [key = "stock", when = !dry, guard = hold, on_busy = fallback(cached)] (dry: bool)
            -> Result<&'static str, LockError> { Ok(if hold.is_some() { "locked" } else { "dry" }) }
            (false) => Ok("locked"), Ok("cached"),
        [key = "stock", when = !dry, guard = hold, on_busy = fallback(cached)] (dry: bool)
            -> Result<&'static str, LockError> { Ok(if hold.is_some() { "locked" } else { "dry" }) }
            (true) => Ok("dry"), Ok("dry"),
    }
}

mod on_a_thread {
    use super::*;

    #[distributed_lock(key = "stock", when = !dry, guard = hold, wait = none)]
    fn count(dry: bool) -> Result<bool, LockError> {
        let seen: Option<&LockGuard> = hold;
        Ok(seen.is_some())
    }

    #[distributed_lock(key = "stock", when = !dry, guard = hold, on_busy = fallback(cached))]
    fn falls_back(dry: bool) -> Result<&'static str, LockError> {
        Ok(if hold.is_some() { "locked" } else { "dry" })
    }

    fn cached(_: bool) -> Result<&'static str, LockError> {
        Ok("cached")
    }

    #[test]
    fn runs() -> Result<(), LockError> {
        assert!(!count(true)?, "no client is needed");
        let client = LockClient::in_memory();
        let there = client.clone();
        client.scope_blocking(|| {
            assert!(count(false)?);
            assert_eq!(falls_back(false)?, "locked");
            let held = client.mutex("stock").blocking_lock()?;
            let asks = move || {
                there.scope_blocking(|| {
                    assert!(count(false).unwrap_err().is_busy() && !count(true)?);
                    assert_eq!((falls_back(false)?, falls_back(true)?), ("cached", "dry"));
                    Ok::<_, LockError>(())
                })
            };
            std::thread::spawn(asks).join().unwrap()?;
            held.blocking_release()
        })
    }
}
