//! Options: what a lock sets lies over what its client sets, and what no place sets has an end.

use crate::prelude::*;
use crate::support::kinds::two_in_memory;

#[distributed_lock(key = "m", client = client)]
async fn annotated(client: &LockClient) -> Result<(), LockError> {
    panic!("called without its lock");
}

#[distributed_lock(key = "m", client = client, policy = "p")]
async fn of_policy(client: &LockClient) -> Result<(), LockError> {
    panic!("called without its lock");
}

/// How an acquire of a held lock ends, and after how many seconds.
async fn waited<T: std::fmt::Debug>(acquire: impl Future<Output = Result<T, LockError>>) -> u64 {
    let start = Instant::now();
    let error = acquire.await.unwrap_err();
    assert!(error.is_timeout() && !error.is_busy() && error.is_retryable(), "{error:?}");
    start.elapsed().as_secs()
}

/// S-18: a lock that nothing bounds is waited for half a minute, a latch too, and that is a timeout and not busy.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_by_itself() {
    let (client, other) = two_in_memory();
    let held = other.mutex("m").lock().await.unwrap();
    client.latch("l").try_set_count(1).await.unwrap();
    let config = LockConfig::from_toml("[lock.policies.p]\nlease = \"5s\"").unwrap();
    let configured = LockClient::builder().config(config).in_memory().unwrap();
    let _around = configured.mutex("m").lock().await.unwrap();
    assert_eq!(waited(client.mutex("m").lock()).await, 30);
    assert_eq!(waited(other.mutex("m").lock()).await, 30, "in the process that holds it");
    assert_eq!(waited(client.latch("l").reached()).await, 30);
    assert_eq!(waited(annotated(&client)).await, 30);
    assert_eq!(waited(of_policy(&configured)).await, 30);
    assert_eq!(waited(configured.policy_lock("p", ["m"]).lock()).await, 30);
    // Forever is said.
    let forever = client.mutex("m").wait(Wait::Forever).lock();
    assert!(timeout(secs(3600), forever).await.is_err(), "it ended");
    held.release().await.unwrap();
}

/// What a lock sets lies over what its client sets, option by option, also where it is set in several steps.
#[tokio::test(start_paused = true)]
async fn options_are_merged() {
    let options = LockOptions::new().lease(secs(5)).wait(Wait::None);
    let client = LockClient::builder().options(options).in_memory().unwrap();
    let held = client.mutex("m").lock().await.unwrap();
    assert!(held.remaining() <= secs(5), "{:?}", held.remaining());
    assert!(client.mutex("m").lock().await.unwrap_err().is_busy());
    let waits = client.mutex("m").with(LockOptions::new().wait(secs(2)));
    assert_eq!(waited(waits.lock()).await, 2);
    held.release().await.unwrap();
    // Its lease is still the client's, and the setters are over both.
    assert!(waits.lock().await.unwrap().remaining() <= secs(5));
    let long = waits.with(LockOptions::new().max_waiters(1)).lease(secs(60));
    assert!(long.lock().await.unwrap().remaining() > secs(50));
    // A builder merges, too.
    let builder = LockClient::builder().options(LockOptions::new().lease(secs(7)));
    let client = builder.options(LockOptions::new().wait(Wait::None)).in_memory().unwrap();
    let held = client.mutex("m").lock().await.unwrap();
    assert!(held.remaining() <= secs(7));
    assert!(client.mutex("m").lock().await.unwrap_err().is_busy());
}

/// S-10: checked when the lock is acquired, in whatever order the options were set, and on every kind.
#[tokio::test]
async fn options_are_checked_when_a_lock_is_acquired() {
    let client = LockClient::in_memory();
    let zero = Duration::ZERO;
    let replicas = LockOptions::new().replicas(Replicas::new(0, secs(1)));
    for (acquire, kind) in [
        (client.mutex("a").lease(secs(9)).max_hold(secs(1)).lock(), "mutex"),
        (client.mutex("a").max_hold(secs(1)).lease(secs(9)).lock(), "mutex"),
        (client.fair_mutex("a").wait(zero).lock(), "fair"),
        (client.rw_lock("a").at_least(zero).read(), "read"),
        (client.rw_lock("a").lease(ms(1)).write(), "write"),
        (client.semaphore("a", 2).max_hold(zero).acquire(), "permit"),
        (client.multi_lock(["a", "b"]).with(replicas).lock(), "multi"),
        (client.any_lock(LockKind::Mutex, ["a"]).at_least(zero).lock(), "any"),
        (client.semaphore("a", 0).acquire(), "no permits"),
        (client.any_lock(LockKind::Semaphore(0), ["a"]).lock(), "no permits"),
        (client.semaphore("a", 2).acquire_many(0), "no permits"),
    ] {
        let result = acquire.await;
        assert!(matches!(result, Err(LockError::InvalidOptions(_))), "{kind}: {result:?}");
    }
    let waits = client.latch("l").with(LockOptions::new().wait(zero)).reached().await;
    assert!(matches!(waits, Err(LockError::InvalidOptions(_))), "{waits:?}");
    // A fixed lease ends within the limit of renewals, which stays for a lease of another place.
    let fixed = client.mutex("a").max_hold(secs(9)).lease(secs(1));
    assert!(fixed.lock().await.unwrap().remaining() <= secs(1));
    let merged = LockOptions::new().lease(secs(1)).or(LockOptions::new().max_hold(secs(9)));
    assert_eq!(merged.max_hold, Some(secs(9)));
    fixed.lease(Lease::Watchdog(secs(1))).lock().await.unwrap().release().await.unwrap();
}

/// A body that fails, and a lock that fails, are one error.
#[tokio::test]
async fn a_body_that_fails_and_a_lock_that_fails() {
    #[derive(Debug, PartialEq)]
    enum Failed {
        Body,
        Lock { is_busy: bool },
    }
    impl From<LockError> for Failed {
        fn from(error: LockError) -> Self {
            Self::Lock { is_busy: error.is_busy() }
        }
    }
    let (client, other) = two_in_memory();
    let mutex = client.mutex("m").wait(Wait::None);
    let body = async || Ok::<_, Failed>(7);
    assert_eq!(mutex.try_run(body()).await, Ok(7));
    assert_eq!(mutex.try_run(async { Err::<u32, _>(Failed::Body) }).await, Err(Failed::Body));
    // Released, whatever the body returned.
    let held = other.mutex("m").try_lock().await.unwrap().unwrap();
    assert_eq!(mutex.try_run(body()).await, Err(Failed::Lock { is_busy: true }));
    let invalid = client.semaphore("s", 0).try_run(body()).await;
    assert_eq!(invalid, Err(Failed::Lock { is_busy: false }));
    held.release().await.unwrap();
}
