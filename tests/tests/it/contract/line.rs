//! Waiting: the local line, hand-off, other processes, limits (S-14 to S-18).

use super::peer::{Guard, Lock};
use crate::contract::world::*;

/// An acquire that has joined the queue, here and now.
async fn queued(lock: Lock) -> BoxFuture<'static, Result<Guard, LockError>> {
    let mut acquire = lock.lock();
    assert!(poll!(&mut acquire).is_pending());
    acquire
}

/// S-14: a long line of tasks, each gets it once, in the order in which they came, with tokens in that
/// order.
pub(crate) async fn local_waiters_are_served_in_order(world: &World) {
    let crowd = world.crowd();
    let client = world.client().await;
    let first = client.mutex("fifo").lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..crowd {
        // A busy machine serves a few of them in a second.
        let acquire = queued(client.mutex("fifo").with(waits(secs(300)))).await;
        let served = served.clone();
        tasks.push(lock_tests::spawn(async move {
            let guard = acquire.await.unwrap();
            served.lock().unwrap().push((number, guard.token()));
            guard.release().await.unwrap();
        }));
    }
    first.release().await.unwrap();
    joined(tasks).await;
    let served = served.lock().unwrap();
    assert_eq!(served.len(), crowd);
    assert!(served.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "out of order: {served:?}");
}

/// S-15: the wait is kept to, locally and across processes, and the error says what it knows.
pub(crate) async fn a_waiter_times_out(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let _held = a.mutex("t").lock().await.unwrap();
    for client in [&a, &b] {
        let limit = ms(300);
        let start = Instant::now();
        let error = client.mutex("t").with(waits(limit)).lock().await.unwrap_err();
        let waited = start.elapsed();
        assert!(error.is_timeout(), "{error:?}");
        assert!(waited >= limit && waited < limit + promptly(), "waited {waited:?}");
    }
}

/// S-33: the task that asks the store for all may end its wait together with the one behind it, which has never heard
/// the store's answer.
pub(crate) async fn waiters_time_out_together(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let _held = a.mutex("t").lock().await.unwrap();
    let start = Instant::now();
    let end = start + ms(300);
    let mut waiters = Vec::new();
    while start.elapsed() < ms(100) {
        let mutex = b.mutex("t").with(waits(end - Instant::now()));
        waiters.push(lock_tests::spawn(async move { mutex.lock().await.map(drop) }));
        sleep(ms(10)).await;
    }
    for outcome in joined(waiters).await {
        let error = outcome.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
    }
}

/// S-17.
pub(crate) async fn a_dropped_waiter_leaves_the_line(world: &World) {
    let client = world.client().await;
    let held = client.mutex("q").lock().await.unwrap();
    let one = LockOptions::new().max_waiters(1);
    for _ in 0..20 {
        // Were the places of the dropped kept, the second would be refused.
        let acquire = client.mutex("q").with(one.clone()).lock();
        assert!(timeout(ms(2), acquire).await.is_err());
    }
    held.release().await.unwrap();
    assert!(client.mutex("q").try_lock().await.unwrap().is_some());
}

/// S-18, per key and per client. Where the holder leaves the front of the line, one more waits there.
pub(crate) async fn too_many_waiters_are_sent_away(world: &World) {
    let client = world.client_with(LockClient::builder().max_waiters(3)).await;
    let two = LockOptions::new().max_waiters(2);
    let _held = [client.mutex("a").lock().await.unwrap(), client.mutex("b").lock().await.unwrap()];
    let mut waiting = Vec::new();
    for (name, why, most) in [("a", "per key", 3), ("b", "per client", 3)] {
        let mut here = 0;
        let error = loop {
            let mut acquire = client.mutex(name).with(two.clone()).lock();
            match timeout(ms(40), &mut acquire).await {
                Ok(outcome) => break outcome.map(drop).unwrap_err(),
                Err(_) => waiting.push(acquire),
            }
            here += 1;
            assert!(here <= most, "{why}: {here} wait for {name}");
        };
        let too_many = matches!(error, LockError::Busy { reason: BusyReason::TooManyWaiters, .. });
        assert!(too_many, "{why}: {error:?}");
    }
    assert!((3..=5).contains(&waiting.len()), "{} wait", waiting.len());
    drop(waiting);
    // Their places are free again.
    assert!(client.mutex("a").with(waits(ms(20))).lock().await.unwrap_err().is_timeout());
}

/// S-15: by the notice, far before the holder's lease or the poll cap would have it look.
pub(crate) async fn a_waiter_in_another_client_is_woken(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    for round in 0..5 {
        // A name of its own, so that the subscription is this round's.
        let name = format!("wake:{round}");
        let guard = a.mutex(&name).lock().await.unwrap();
        let mutex = b.mutex(&name);
        let waiter = lock_tests::spawn(async move { mutex.lock().await });
        world.subscribed(&name).await;
        assert!(!waiter.is_finished());
        guard.release().await.unwrap();
        let guard = timeout(promptly(), waiter).await.expect("not woken").unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// S-14: a client that gives a hold back lets another go first, although it could be quicker.
pub(crate) async fn both_clients_get_their_turns(world: &World) {
    let clients = [world.client().await, world.client().await];
    let grants = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let visit = async |which: usize| {
        while !is_over.load(Ordering::Relaxed) {
            let guard = clients[which].mutex("both").lock().await.unwrap();
            grants.lock().unwrap().push(which);
            sleep(ms(1)).await;
            guard.release().await.unwrap();
        }
    };
    // A turn is one grant or more: how many the time for hand-offs has room for depends on the machine. A client that is passed
    // over asks by itself once every poll cap, so that ten turns would take it far longer than this.
    let turns = async || {
        let grants = grants.lock().unwrap();
        grants.windows(2).filter(|pair| pair[0] != pair[1]).count() >= 20
    };
    let watched = async || {
        eventually(secs(20), "each client has ten turns", turns).await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(visit(0), visit(1), visit(0), visit(1), watched());
}

/// S-10, S-14: a hold that was handed over is renewed for its new holder; the limit of the holder
/// before, which had passed, is not its own.
pub(crate) async fn handed_over_holds_are_watched_anew(world: &World) {
    let window = LockClient::builder().handoff_window(secs(10));
    let client = world.client_with(window).await;
    let lock = client.mutex("h").with(watched(SHORT));
    let first = lock.lock().await.unwrap();
    let limited = queued(lock.clone().with(watched(SHORT).max_hold(ms(100)))).await;
    let second = queued(lock).await;
    first.release().await.unwrap();
    let limited = limited.await.unwrap();
    let token = limited.token().get();
    // Long enough for the watchdog to have given the hold up for the limit.
    sleep(SHORT / 3 + ms(40)).await;
    limited.release().await.unwrap();
    let second = second.await.unwrap();
    assert_eq!(second.token().get(), token + 1, "not handed over");
    assert_eq!(client.admin().held()[0].token, second.token());
    sleep(SHORT * 2).await;
    assert!(!second.is_lost());
    second.release().await.unwrap();
    assert!(world.holders("h").await.is_empty());
}

/// S-14: "same lease" is part of the rule; whoever asks for another gets one of its own.
pub(crate) async fn a_waiter_with_another_lease_gets_its_own(world: &World) {
    let lock = world.client().await.mutex("l");
    let first = lock.lock().await.unwrap();
    let next = queued(lock.clone()).await;
    let other = queued(lock.with(fixed(secs(3)))).await;
    first.release().await.unwrap();
    // Taken with tokens in stock, so only the lease stands against handing it over.
    next.await.unwrap().release().await.unwrap();
    let guard = other.await.unwrap();
    assert!(guard.remaining() <= secs(3), "{:?}", guard.remaining());
}

/// Whether a hold of this lease is handed over within a process, so long after it was handed over before.
async fn is_handed_over(world: &World, lease: Duration, passed: Duration) -> bool {
    let clock = Clock::tokio();
    let builder = LockClient::builder().handoff_window(secs(20)).clock(clock.clone());
    let name = format!("after:{passed:?}");
    let lock = world.client_with(builder).await.mutex(&name).with(watched(lease));
    let first = lock.lock().await.unwrap();
    let (second, third) = (queued(lock.clone()).await, queued(lock).await);
    first.release().await.unwrap();
    let second = second.await.unwrap();
    let owner = world.holders(&name).await;
    clock.advance(passed);
    // Its first poll releases, before the watchdog renews.
    second.release().await.unwrap();
    let third = third.await.unwrap();
    let is_handed_over = world.holders(&name).await == owner;
    third.release().await.unwrap();
    is_handed_over
}

/// S-14: past the window the hold goes back to the store, so that others get a chance; and so does one with less than half
/// of its lease left, or the next holder would soon lose it.
pub(crate) async fn hand_off_ends_with_its_window_and_before_its_lease(world: &World) {
    for (lease, passed, expected) in
        [(120, 0, true), (120, 21, false), (30, 14, true), (30, 16, false)]
    {
        let handed_over = is_handed_over(world, secs(lease), secs(passed)).await;
        assert_eq!(handed_over, expected, "after {passed} s, with a lease of {lease} s");
    }
}

/// S-35: who waits, since when, behind how many of this process, where in the program, and what is kept meanwhile.
pub(crate) async fn waiters_are_shown_with_their_site_and_what_they_are_inside_of(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let held = a.mutex("shown").lock().await.unwrap();
    assert_eq!((a.admin().waiting(), b.admin().waiting()), (vec![], vec![]));
    let outer = b.mutex("outer").lock().await.unwrap();
    let plain = b.mutex("shown").lock();
    let (first, second) = (b.mutex("shown").lock(), a.mutex("shown").lock());
    let nested = lock_tests::spawn(async move { outer.run(first).await.unwrap().unwrap() });
    eventually(SOON, "one waits inside of a lock", async || b.admin().waiting().len() == 1).await;
    let plain = lock_tests::spawn(plain);
    eventually(SOON, "another one waits", async || b.admin().waiting().len() == 2).await;
    let second = lock_tests::spawn(second);
    eventually(SOON, "one waits beside the holder", async || a.admin().waiting().len() == 1).await;
    world.subscribed("shown").await;

    let waits = b.admin().waiting();
    let (nests, waits): (Vec<_>, Vec<_>) = waits.iter().partition(|wait| !wait.inside.is_empty());
    let ([nests], [waits]) = (&nests[..], &waits[..]) else { panic!("{nests:?} {waits:?}") };
    assert!(nests.inside.iter().map(LockKey::as_str).eq(["outer"]), "{nests:?}");
    for wait in [nests, waits] {
        assert_eq!(wait.key.as_str(), "shown");
        assert_eq!(wait.kind, b.admin().held()[0].kind);
        assert!(wait.waited_for < SOON + SOON, "{:?}", wait.waited_for);
        let site = wait.site.as_deref().unwrap();
        assert!(site.contains("contract/"), "{site}");
    }
    // The first of a process asks the store; where the queue is in the store, each of them does.
    let asks = |wait: &WaitInfo| wait.place.is_none();
    assert!(asks(nests), "{nests:?}");
    assert!(asks(waits) || waits.place == Some(0), "{waits:?}");
    assert!(nests.waited_for >= waits.waited_for);

    plain.abort();
    eventually(SOON, "who left is not shown", async || b.admin().waiting().len() == 1).await;
    held.release().await.unwrap();
    let (nested, second) = (async { drop(nested.await.unwrap()) }, async { drop(second.await) });
    tokio::join!(nested, second);
    assert_eq!((a.admin().waiting(), b.admin().waiting()), (vec![], vec![]));
}
