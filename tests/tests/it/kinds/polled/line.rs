//! Waiters in a local line whose turn has come and that are not polled.

use crate::kinds::polled::*;

const LEASE: Duration = secs(3);

/// More than anybody may wait for a sleeper: a second, and some round trips.
const BOUND: Duration = ms(1_200);

/// S-34, the steps of the issue: eight waiters, the hold is handed to one whose `select!` runs another
/// arm. The next local waiter goes on.
#[tokio::test(start_paused = true)]
async fn a_handed_over_hold_goes_on_to_the_next() {
    let [client, _] = clients("mutex", LEASE);
    let held = client.mutex("k").lock().await.unwrap();
    let first = lock_tests::spawn(client.mutex("k").lock());
    tokio::task::yield_now().await;
    let (arm, busy) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let second = lock_tests::spawn({
        let (mutex, arm, busy) = (client.mutex("k"), arm.clone(), busy.clone());
        async move {
            let mut acquire = mutex.lock();
            loop {
                tokio::select! {
                    biased;
                    () = arm.notified() => busy.notified().await,
                    guard = &mut acquire => return guard,
                }
            }
        }
    });
    tokio::task::yield_now().await;
    let line: Vec<_> = (0..6).map(|_| lock_tests::spawn(client.mutex("k").lock())).collect();
    tokio::task::yield_now().await;
    arm.notify_one();
    tokio::task::yield_now().await;
    held.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    let token = first.token().get();
    let start = Instant::now();
    first.release().await.unwrap();
    for waiting in line {
        let guard = timeout(BOUND * 4, waiting).await.expect("hangs").unwrap().unwrap();
        // The second's turn came and went, so its token is lost.
        assert!(guard.token().get() > token + 1, "not handed over, not what this is about");
        guard.release().await.unwrap();
    }
    let waited = start.elapsed();
    assert!(waited <= BOUND, "waited {waited:?}");
    assert!(!second.is_finished());
    busy.notify_one();
    let second = timeout(BOUND, second).await.expect("the sleeper hangs").unwrap().unwrap();
    second.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_in_transit_ends_with_its_lease() {
    let [client, other] = clients("mutex", LEASE);
    let held = client.mutex("k").lock().await.unwrap();
    let first = lock_tests::spawn(client.mutex("k").lock());
    tokio::task::yield_now().await;
    let mut sleeper = polled_once(lock(&client, "mutex", "k")).await;
    held.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    let token = first.token();
    first.release().await.unwrap();
    let start = Instant::now();
    let theirs = timeout(LEASE * 4, other.mutex("k").lock()).await.expect("renewed for ever");
    let waited = start.elapsed();
    assert!(waited > LEASE / 2, "not handed over, not what this is about");
    assert!(waited <= LEASE + ms(100), "waited {waited:?}");
    assert!(timeout(ms(200), &mut sleeper).await.is_err(), "two have it");
    theirs.unwrap().release().await.unwrap();
    let late = timeout(BOUND, sleeper).await.expect("the sleeper hangs").unwrap();
    assert!(late.token() > token);
    late.release().await.unwrap();
}

/// S-10, S-34: polled late, but within the lease, the sleeper has the hold and it is renewed.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_taken_late_is_renewed() {
    for sleep_for in [ms(100), LEASE / 2, LEASE * 9 / 10] {
        let [client, _] = clients("mutex", LEASE);
        let held = client.mutex("k").lock().await.unwrap();
        let first = lock_tests::spawn(client.mutex("k").lock());
        tokio::task::yield_now().await;
        let sleeper = polled_once(lock(&client, "mutex", "k")).await;
        held.release().await.unwrap();
        let first = first.await.unwrap().unwrap();
        let token = first.token();
        first.release().await.unwrap();
        sleep(sleep_for).await;
        let guard = sleeper.await.unwrap();
        assert_eq!(guard.token().get(), token.get() + 1, "not handed over");
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

/// S-17, S-34: sleepers that are dropped leave nothing, whichever state they were in.
#[tokio::test(start_paused = true)]
async fn dropped_sleepers_leave_nothing() {
    for kind in KINDS {
        for asleep in [ms(100), ms(700), ms(1_500), ms(4_000)] {
            let [client, other] = clients(kind, LEASE);
            let held = lock(&client, kind, "k").await.unwrap();
            let mut sleepers = Vec::new();
            for _ in 0..4 {
                sleepers.push(polled_once(lock(&client, kind, "k")).await);
            }
            let last = lock_tests::spawn(lock(&client, kind, "k"));
            sleep(ms(100)).await;
            held.release().await.unwrap();
            sleep(asleep).await;
            drop(sleepers);
            let last = timeout(BOUND, last).await.unwrap_or_else(|_| panic!("{kind} hangs"));
            last.unwrap().unwrap().release().await.unwrap();
            let theirs = timeout(BOUND, lock(&other, kind, "k")).await;
            theirs
                .unwrap_or_else(|_| panic!("{kind} is left held"))
                .unwrap()
                .release()
                .await
                .unwrap();
            let report = client.shutdown(secs(5)).await;
            assert!(report.is_clean(), "{kind}: {report:?}");
        }
    }
}

/// S-20, S-34: a shutdown ends the wait of those who sleep as well.
#[tokio::test(start_paused = true)]
async fn a_shutdown_finds_sleepers() {
    let client = LockClient::builder().store(MemoryStore::new()).unwrap();
    let held = client.mutex("k").lock().await.unwrap();
    let sleepers = [
        polled_once(lock(&client, "mutex", "k")).await,
        polled_once(lock(&client, "mutex", "k")).await,
    ];
    let last = lock_tests::spawn(client.mutex("k").lock());
    sleep(ms(700)).await;
    held.release().await.unwrap();
    let guard = timeout(BOUND, last).await.expect("hangs").unwrap().unwrap();
    let shutdown = lock_tests::spawn({
        let client = client.clone();
        async move { client.shutdown(ms(500)).await }
    });
    sleep(ms(10)).await;
    guard.release().await.unwrap();
    assert!(shutdown.await.unwrap().is_clean());
    for sleeper in sleepers {
        let closed = sleeper.now_or_never().expect("waits on");
        assert!(matches!(closed, Err(lock_runtime::LockError::Closed)), "{closed:?}");
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
