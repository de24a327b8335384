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

/// S-18: a lock that nothing bounds is waited for half a minute, a latch too, and that is a timeout and not busy.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_by_itself() {
    let (client, other) = two_in_memory();
    let held = other.mutex("m").lock().await.unwrap();
    let waited = |start: Instant| (start.elapsed().as_secs(), start.elapsed() < secs(31));
    let start = Instant::now();
    let error = client.mutex("m").lock().await.unwrap_err();
    assert_eq!(waited(start), (30, true));
    assert!(error.is_timeout() && !error.is_busy() && error.is_retryable(), "{error:?}");
    // The same for a task of the process that holds it.
    let start = Instant::now();
    assert!(other.mutex("m").lock().await.unwrap_err().is_timeout());
    assert_eq!(waited(start), (30, true));
    client.latch("l").try_set_count(1).await.unwrap();
    let start = Instant::now();
    let error = client.latch("l").reached().await.unwrap_err();
    assert!(error.is_timeout() && !error.is_busy(), "{error:?}");
    assert_eq!(waited(start), (30, true));
    let start = Instant::now();
    assert!(annotated(&client).await.unwrap_err().is_timeout());
    assert_eq!(waited(start), (30, true));
    let config = LockConfig::from_toml("[lock.policies.p]\nlease = \"5s\"").unwrap();
    let configured = LockClient::builder().config(config).in_memory().unwrap();
    let around = configured.mutex("m").lock().await.unwrap();
    let start = Instant::now();
    assert!(of_policy(&configured).await.unwrap_err().is_timeout());
    assert_eq!(waited(start), (30, true));
    let start = Instant::now();
    let by_policy = configured.policy_lock("p", ["m"]);
    assert!(by_policy.lock().await.unwrap_err().is_timeout());
    assert_eq!(waited(start), (30, true));
    around.release().await.unwrap();
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
    let start = Instant::now();
    let waits = client.mutex("m").with(LockOptions::new().wait(secs(2)));
    assert!(waits.lock().await.unwrap_err().is_timeout());
    assert!(start.elapsed() >= secs(2) && start.elapsed() < secs(3), "{:?}", start.elapsed());
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
    let invalid = |result: Result<LockGuard, LockError>, kind: &str| {
        assert!(matches!(result, Err(LockError::InvalidOptions(_))), "{kind}: {result:?}");
    };
    invalid(client.mutex("a").lease(secs(9)).max_hold(secs(1)).lock().await, "mutex");
    invalid(client.mutex("a").max_hold(secs(1)).lease(secs(9)).lock().await, "mutex");
    invalid(client.fair_mutex("a").wait(zero).lock().await, "fair");
    invalid(client.rw_lock("a").at_least(zero).read().await, "read");
    invalid(client.rw_lock("a").lease(ms(1)).write().await, "write");
    invalid(client.semaphore("a", 2).max_hold(zero).acquire().await, "permit");
    invalid(
        client
            .multi_lock(["a", "b"])
            .with(LockOptions::new().replicas(Replicas::new(0, secs(1))))
            .lock()
            .await,
        "multi",
    );
    invalid(client.any_lock(LockKind::Mutex, ["a"]).at_least(zero).lock().await, "any");
    invalid(client.semaphore("a", 0).acquire().await, "no permits");
    invalid(client.any_lock(LockKind::Semaphore(0), ["a"]).lock().await, "no permits");
    invalid(client.semaphore("a", 2).acquire_many(0).await, "no permits");
    let waits = client.latch("l").with(LockOptions::new().wait(zero)).reached().await;
    assert!(matches!(waits, Err(LockError::InvalidOptions(_))), "{waits:?}");
    // A fixed lease ends within the limit of renewals, which stays for a lease of another place.
    let fixed = client.mutex("a").max_hold(secs(9)).lease(secs(1));
    let guard = fixed.clone().lock().await.unwrap();
    assert!(guard.remaining() <= secs(1));
    guard.release().await.unwrap();
    assert_eq!(
        LockOptions::new().lease(secs(1)).or(LockOptions::new().max_hold(secs(9))).max_hold,
        Some(secs(9))
    );
    fixed.lease(Lease::Watchdog(secs(1))).lock().await.unwrap().release().await.unwrap();
}

/// One guard for every kind: it tells its permits, and checks its hold.
#[tokio::test(start_paused = true)]
async fn guards_are_of_one_type() {
    let client = LockClient::in_memory();
    let three = client.semaphore("s", 3);
    let guards: [LockGuard; 3] = [
        three.acquire_many(2).await.unwrap(),
        three.try_acquire().await.unwrap().expect("one is free"),
        client.mutex("m").lease(secs(1)).lock().await.unwrap(),
    ];
    assert_eq!(guards.each_ref().map(LockGuard::permits), [2, 1, 1]);
    guards.iter().for_each(|guard| guard.check().unwrap());
    tokio::time::sleep(secs(2)).await;
    let lost = guards[2].check().unwrap_err();
    assert!(lost.is_lost(), "{lost:?}");
    guards[0].check().unwrap();
}

/// A body that fails, and a lock that fails, are one error.
#[tokio::test]
async fn a_body_that_fails_and_a_lock_that_fails() {
    #[derive(Debug, PartialEq)]
    enum Failed {
        Body,
        Busy,
        Other,
    }
    impl From<LockError> for Failed {
        fn from(error: LockError) -> Self {
            if error.is_busy() { Self::Busy } else { Self::Other }
        }
    }
    let (client, other) = two_in_memory();
    let mutex = client.mutex("m").wait(Wait::None);
    assert_eq!(mutex.try_run(async { Ok::<_, Failed>(7) }).await, Ok(7));
    assert_eq!(mutex.try_run(async { Err::<u32, _>(Failed::Body) }).await, Err(Failed::Body));
    let held = other.mutex("m").lock().await.unwrap();
    assert_eq!(mutex.try_run(async { Ok::<_, Failed>(7) }).await, Err(Failed::Busy));
    held.release().await.unwrap();
    let invalid = client.semaphore("s", 0).try_run(async { Ok::<_, Failed>(7) }).await;
    assert_eq!(invalid, Err(Failed::Other));
    // Released, whatever the body returned.
    assert!(other.mutex("m").try_lock().await.unwrap().is_some());
}
