//! Waiters in a local line whose turn has come and that are not polled.

use crate::kinds::polled::*;

const LEASE: Duration = secs(3);

/// More than anybody may wait for a sleeper: a second, and some round trips.
const BOUND: Duration = ms(1_200);

/// A waiter that is not polled any more when a hold was handed to it, tasks that wait behind it, and the token of the hold
/// before.
async fn handed_to_a_sleeper(
    client: &LockClient,
    behind: usize,
) -> (Acquiring, Vec<JoinHandle<Result<LockGuard, LockError>>>, u64) {
    let held = client.mutex("k").lock().await.unwrap();
    let first = lock_tests::spawn(client.mutex("k").lock());
    tokio::task::yield_now().await;
    let sleeper = polled_once(lock(client, "mutex", "k")).await;
    let line = (0..behind).map(|_| lock_tests::spawn(client.mutex("k").lock())).collect();
    tokio::task::yield_now().await;
    held.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    let token = first.token().get();
    first.release().await.unwrap();
    (sleeper, line, token)
}

/// S-34: the next local waiter goes on.
#[tokio::test(start_paused = true)]
async fn a_handed_over_hold_goes_on_to_the_next() {
    let [client, _] = clients("mutex", LEASE);
    let (sleeper, line, token) = handed_to_a_sleeper(&client, 6).await;
    let start = Instant::now();
    for waiting in line {
        let guard = timeout(BOUND * 4, waiting).await.expect("hangs").unwrap().unwrap();
        // The sleeper's turn came and went, so its token is lost.
        assert!(guard.token().get() > token + 1, "not handed over, not what this is about");
        guard.release().await.unwrap();
    }
    let waited = start.elapsed();
    assert!(waited <= BOUND, "waited {waited:?}");
    let late = timeout(BOUND, sleeper).await.expect("the sleeper hangs").unwrap();
    late.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_in_transit_ends_with_its_lease() {
    let [client, other] = clients("mutex", LEASE);
    let (mut sleeper, _, token) = handed_to_a_sleeper(&client, 0).await;
    let start = Instant::now();
    let theirs = timeout(LEASE * 4, other.mutex("k").lock()).await.expect("renewed for ever");
    let waited = start.elapsed();
    assert!(waited > LEASE / 2, "not handed over, not what this is about");
    assert!(waited <= LEASE + ms(100), "waited {waited:?}");
    assert!(timeout(ms(200), &mut sleeper).await.is_err(), "two have it");
    theirs.unwrap().release().await.unwrap();
    let late = timeout(BOUND, sleeper).await.expect("the sleeper hangs").unwrap();
    assert!(late.token().get() > token);
    late.release().await.unwrap();
}

/// S-10, S-34: polled late, but within the lease, the sleeper has the hold and it is renewed.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_taken_late_is_renewed() {
    for sleep_for in [ms(100), LEASE / 2, LEASE * 9 / 10] {
        let [client, _] = clients("mutex", LEASE);
        let (sleeper, _, token) = handed_to_a_sleeper(&client, 0).await;
        sleep(sleep_for).await;
        let guard = sleeper.await.unwrap();
        assert_eq!(guard.token().get(), token + 1, "not handed over");
        sleep(LEASE * 3).await;
        assert!(!guard.is_lost(), "lost after {sleep_for:?} asleep");
        guard.release().await.unwrap();
    }
}

/// S-34: eight waiters, six of which are not polled: the last goes on after a second, in each kind.
#[tokio::test(start_paused = true)]
async fn many_sleepers_cost_a_second_in_all() {
    for kind in KINDS {
        let [client, _] = clients(kind, LEASE);
        let held = lock(&client, kind, "k").await.unwrap();
        let mut sleepers = Vec::new();
        for _ in 0..6 {
            let mut sleeper = polled_once(lock(&client, kind, "k")).await;
            // Where the line is in the store, they line up there.
            let _ = timeout(ms(100), &mut sleeper).await;
            sleepers.push(sleeper);
        }
        let last = lock_tests::spawn(lock(&client, kind, "k"));
        sleep(ms(100)).await;
        held.release().await.unwrap();
        let start = Instant::now();
        let guard = timeout(secs(30), last).await;
        let waited = start.elapsed();
        let guard = guard.unwrap_or_else(|_| panic!("{kind} hangs")).unwrap().unwrap();
        assert!(waited <= BOUND, "{kind}: waited {waited:?}");
        guard.release().await.unwrap();
        // Awake, they have it one after the other.
        for sleeper in sleepers {
            let late = lock_tests::spawn(sleeper);
            let late = timeout(BOUND * 2, late).await;
            let late = late.unwrap_or_else(|_| panic!("{kind}: a sleeper hangs"));
            late.unwrap().unwrap().release().await.unwrap();
        }
    }
}

/// S-34: whoever is polled now and then keeps its turn, and those polled in time are never passed over.
#[tokio::test(start_paused = true)]
async fn polled_within_a_second_it_keeps_its_turn() {
    let [holder, client] = clients("mutex", LEASE);
    let held = holder.mutex("k").lock().await.unwrap();
    let mut slow = lock(&client, "mutex", "k");
    assert!(timeout(ms(100), &mut slow).await.is_err());
    let behind = lock_tests::spawn(client.mutex("k").lock());
    for _ in 0..10 {
        sleep(ms(900)).await;
        assert!(futures_util::poll!(&mut slow).is_pending());
    }
    held.release().await.unwrap();
    let guard = loop {
        sleep(ms(900)).await;
        if let std::task::Poll::Ready(guard) = futures_util::poll!(&mut slow) {
            break guard.unwrap();
        }
        assert!(!behind.is_finished(), "passed over");
    };
    guard.release().await.unwrap();
    behind.await.unwrap().unwrap().release().await.unwrap();
}

/// S-34: a release that is not polled to its end.
#[tokio::test(start_paused = true)]
async fn a_sleeping_release_is_passed_over() {
    for kind in KINDS {
        let [client, _] = clients(kind, LEASE);
        let held = lock(&client, kind, "k").await.unwrap();
        let behind = lock_tests::spawn(lock(&client, kind, "k"));
        sleep(ms(100)).await;
        let mut releasing = Box::pin(held.release());
        assert!(futures_util::poll!(&mut releasing).is_pending());
        let start = Instant::now();
        let guard = timeout(BOUND * 4, behind).await;
        let waited = start.elapsed();
        let guard = guard.unwrap_or_else(|_| panic!("{kind} hangs")).unwrap().unwrap();
        assert!(waited <= ms(1_700), "{kind}: waited {waited:?}");
        releasing.await.unwrap();
        // The late end of that release is nothing to the next holder.
        let next = lock_tests::spawn(lock(&client, kind, "k"));
        sleep(ms(500)).await;
        assert!(!guard.is_lost() && !next.is_finished());
        guard.release().await.unwrap();
        next.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// S-34: a waiter that was not polled when its turn came learns of a shutdown as soon as it is polled, as those in the queue do.
#[tokio::test(start_paused = true)]
async fn a_turn_that_a_shutdown_takes_back_ends_the_wait_at_once() {
    for kind in ["mutex", "write"] {
        let client = LockClient::in_memory();
        let held = take(&client, kind, "line", LockOptions::default()).await.unwrap();
        let mut waiter = Box::pin(take(&client, kind, "line", LockOptions::default()));
        assert!(poll!(waiter.as_mut()).is_pending());
        held.release().await.unwrap();
        // Its turn has come, and it is not polled.
        let report = client.shutdown(SOON).await;
        assert!(report.is_clean(), "{kind}: {report:?}");
        let start = Instant::now();
        let ended = timeout(SOON, waiter).await.expect("it waits on");
        assert!(matches!(ended, Err(LockError::Closed)), "{kind}: {ended:?}");
        assert!(start.elapsed() < ms(50), "{kind}: it learns of it after {:?}", start.elapsed());
    }
}
