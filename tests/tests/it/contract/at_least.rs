//! Locks that are kept for a while, however soon they are let go (`LockOptions::at_least`).

use kinds::take_one_or_several as take;
use kinds::{KINDS_AND_SEVERAL, rival, two_in_memory};

use crate::prelude::*;
use crate::support::kinds;

const AT_LEAST: Duration = ms(600);

/// How late a waiter may be on a busy machine. Less than what it sleeps when nobody tells it.
const LATE: Duration = ms(900);

fn at_least(at_least: Duration) -> LockOptions {
    LockOptions::new().at_least(at_least)
}

fn kept() -> LockOptions {
    at_least(AT_LEAST)
}

async fn on_redis(server: &RedisServer) -> (LockClient, LockClient) {
    (connect(server).await, connect(server).await)
}

/// S-15, S-20: let go after a moment, the lock is nobody's before `AT_LEAST` has passed, and then at
/// once that of whoever waits, since before it was let go or since then.
async fn is_kept(
    (one, other): (&LockClient, &LockClient),
    (kind, lease, dropped): (&'static str, Lease, bool),
) {
    let case = format!("{kind} {lease:?} {dropped}").replace([' ', '{', '}', '(', ')'], "-");
    let start = Instant::now();
    let guard = take(one, kind, &case, at_least(AT_LEAST).lease(lease)).await.unwrap();
    let taken = Instant::now();
    let waiter = lock_tests::spawn({
        let (other, case) = (other.clone(), case.clone());
        async move { take(&other, rival(kind), &case, LockOptions::default()).await.map(drop) }
    });
    sleep(ms(50)).await;
    if dropped {
        drop(guard);
    } else {
        guard.release().await.unwrap();
    }
    for client in [one, other] {
        let refused = take(client, rival(kind), &case, waits(Wait::None)).await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{case}: {refused:?}");
    }
    let waited = timeout(SOON, waiter).await;
    waited.unwrap_or_else(|_| panic!("{case}: never free")).unwrap().unwrap();
    let kept = start.elapsed();
    assert!(kept >= AT_LEAST, "{case}: free after {kept:?}");
    let late = taken.elapsed().saturating_sub(AT_LEAST);
    assert!(late < LATE, "{case}: late by {late:?}");
}

async fn all_are_kept(one: &LockClient, other: &LockClient, dropped: bool) {
    // Leases of which `AT_LEAST` is a part, and that are over long before.
    let leases = [Lease::default(), Lease::Fixed(secs(20)), Lease::Watchdog(ms(300))];
    let cases = KINDS_AND_SEVERAL.into_iter().flat_map(|kind| leases.map(|lease| (kind, lease)));
    join_all(cases.map(|(kind, lease)| is_kept((one, other), (kind, lease, dropped)))).await;
    for client in [one, other] {
        assert!(client.shutdown(SOON).await.is_clean());
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_is_kept_in_memory() {
    for dropped in [false, true] {
        let (one, other) = two_in_memory();
        all_are_kept(&one, &other, dropped).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_is_kept_on_redis() {
    let server = RedisServer::start().await;
    for dropped in [false, true] {
        let (one, other) = on_redis(&server).await;
        all_are_kept(&one, &other, dropped).await;
    }
}

/// S-31: what replicas know of has a connection of its own, and is kept over that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_replicas_know_is_kept() {
    let server = RedisServer::start().await;
    let _replica = RedisServer::builder().replica_of(server.port()).start().await;
    server.wait_for_replicas(1).await;
    let (client, other) = on_redis(&server).await;
    let known = kept().replicas(Replicas::new(1, secs(5)));
    for kind in ["mutex", "several fair"] {
        let start = Instant::now();
        let guard = take(&client, kind, kind, known.clone()).await.unwrap();
        guard.release().await.unwrap();
        let next = timeout(SOON, take(&other, kind, kind, LockOptions::default())).await;
        next.unwrap().unwrap().release().await.unwrap();
        assert!(start.elapsed() >= AT_LEAST, "{kind}: free after {:?}", start.elapsed());
    }
}

/// S-19, S-20: a lost reply is asked for again, and no answer makes the time longer or shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_changes_nothing() {
    let (server, proxy, client) = far_world().await;
    let other = connect(&server).await;
    for (lost, how) in [(1, "released"), (2, "dropped"), (3, "cut off")] {
        let name = format!("lost-{lost}");
        let start = Instant::now();
        let long = at_least(2 * AT_LEAST);
        let guard = client.mutex(&name).with(long).lock().await.unwrap();
        proxy.drop_next_reply_to(&name);
        match how {
            "released" => guard.release().await.unwrap(),
            "dropped" => drop(guard),
            _ => assert!(poll!(Box::pin(guard.release())).is_pending()),
        }
        soon!("the reply is lost", proxy.replies_dropped() == lost);
        let next = timeout(SOON, other.mutex(&name).lock()).await.unwrap().unwrap();
        let kept = start.elapsed();
        assert!(kept >= 2 * AT_LEAST && kept < 2 * AT_LEAST + LATE, "free after {kept:?}");
        next.release().await.unwrap();
    }
    assert!(client.shutdown(SOON).await.is_clean());
}

/// S-14: the next in the local line gets no hold that is to be kept, although it was reserved a token.
#[tokio::test(start_paused = true)]
async fn the_local_line_waits_as_well() {
    let (client, peer) = two_in_memory();
    let outside = peer.mutex("line").lock().await.unwrap();
    let line = |options| lock_tests::spawn(client.mutex("line").with(options).lock());
    let first = line(LockOptions::default());
    tokio::task::yield_now().await;
    let (second, third) = (line(kept()), line(LockOptions::default()));
    // Long enough for all of them to line up.
    sleep(ms(50)).await;
    outside.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    let token = first.token();
    // Counted from here for the next: short enough to be handed on.
    sleep(ms(2)).await;
    first.release().await.unwrap();
    let (second, handed) = (second.await.unwrap().unwrap(), Instant::now());
    assert_eq!(second.token().get(), token.get() + 1, "not handed on, not what this is about");
    second.release().await.unwrap();
    assert_eq!(peer.admin().inspect("line").await.unwrap().remaining, Some(AT_LEAST));
    let third = third.await.unwrap().unwrap();
    assert!(handed.elapsed() >= AT_LEAST, "handed on after {:?}", handed.elapsed());
    assert!(handed.elapsed() < AT_LEAST + ms(50), "{:?}", handed.elapsed());
    third.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_old_enough_is_free_at_once() {
    let (client, peer) = two_in_memory();
    for kind in KINDS_AND_SEVERAL {
        let guard = take(&client, kind, kind, kept()).await.unwrap();
        sleep(AT_LEAST).await;
        guard.release().await.unwrap();
        let next = take(&peer, rival(kind), kind, waits(Wait::None)).await;
        next.unwrap_or_else(|error| panic!("{kind}: {error}")).release().await.unwrap();
    }
}

/// A shutdown waits for the store's word and for nothing else; the lock stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_leaves_it_cleanly() {
    let (server, client, other) = world_of_two().await;
    let long = at_least(secs(60));
    client.mutex("released").with(long.clone()).lock().await.unwrap().release().await.unwrap();
    drop(client.mutex("dropped").with(long).lock().await.unwrap());
    let (start, grace) = (Instant::now(), secs(30));
    assert!(client.shutdown(grace).await.is_clean());
    assert!(start.elapsed() < patience(SOON), "{:?}", start.elapsed());
    for name in ["released", "dropped"] {
        let left = server.client().pttl(name).await;
        let wanted = secs(40)..=secs(60);
        assert!(matches!(left, Ttl::Left(left) if wanted.contains(&left)), "{name}: {left:?}");
        assert!(other.mutex(name).try_lock().await.unwrap().is_none());
    }
}

/// S-17, S-19: leaving a lock to end needs no memory, nor do a downgrade and waiters that give up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_memory_is_enough() {
    let (server, client) = world().await;
    let raw = server.client();
    let long = at_least(secs(60));
    let guards =
        join_all(KINDS_AND_SEVERAL.map(|kind| take(&client, kind, kind, long.clone()))).await;
    let lock = client.rw_lock("down");
    let writer = lock.write().await.unwrap();
    let reader = writer.run(lock.read()).await.unwrap().unwrap();
    let waiting = [
        (lock_tests::spawn(client.fair_mutex("fair").lock()), "redisson_lock_queue:{fair}"),
        (lock_tests::spawn(client.rw_lock("read").write()), "redisson_rwlock_writers:{read}"),
    ];
    for (_, places) in &waiting {
        soon!("it waits", raw.exists(places).await);
    }
    raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for (waiter, places) in waiting {
        waiter.abort();
        soon!("it has left", !raw.exists(places).await);
    }
    writer.release().await.unwrap();
    assert_eq!(raw.hgetall("down").await["mode"], "read", "not downgraded");
    reader.release().await.unwrap();
    for (guard, kind) in guards.into_iter().zip(KINDS_AND_SEVERAL) {
        guard.unwrap().release().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

/// What can be seen of it, and done about it: an extension does not make it longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_seen_and_freed_by_force() {
    let server = RedisServer::start().await;
    for (client, other) in [two_in_memory(), on_redis(&server).await] {
        let most = secs(50);
        for kind in kinds::KINDS {
            let (word, kind) = kind;
            let options = at_least(most);
            let guard = take(&client, word, word, options).await.unwrap();
            guard.extend(2 * most).await.unwrap();
            guard.release().await.unwrap();
            assert!(client.admin().held().is_empty());
            let seen = other.admin().inspect(word).await.unwrap();
            assert_eq!((seen.kind, seen.holders.len()), (Some(kind), 1));
            let left = seen.remaining.unwrap();
            assert!(left <= most && left > most / 2, "{word}: {left:?}");
            assert!(other.admin().force_release(word).await.unwrap());
            let next = take(&other, word, word, waits(Wait::None)).await.unwrap();
            next.release().await.unwrap();
        }
    }
}

/// S-21: what was granted to nobody is undone at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_was_dropped_is_not_kept() {
    let (server, proxy, client) = far_world().await;
    let other = connect(&server).await;
    let long = at_least(secs(60));
    proxy.delay_replies(ms(500));
    let acquiring = lock_tests::spawn(client.mutex("undone").with(long).lock());
    let raw = server.client();
    soon!("it is taken", raw.exists("undone").await);
    acquiring.abort();
    assert!(acquiring.await.is_err_and(|ended| ended.is_cancelled()), "it was not in flight");
    let free = timeout(SOON, other.mutex("undone").lock()).await.expect("it is kept");
    free.unwrap().release().await.unwrap();
}

/// S-6: a re-entry joins its hold, and the options of that count.
#[tokio::test(start_paused = true)]
async fn the_outermost_guard_decides() {
    let (client, peer) = two_in_memory();
    for (outer, inner, free) in
        [(LockOptions::default(), kept(), true), (kept(), LockOptions::default(), false)]
    {
        let outer = client.mutex("nested").with(outer).lock().await.unwrap();
        let inner = outer.run(client.mutex("nested").with(inner).lock()).await.unwrap().unwrap();
        drop(outer);
        inner.release().await.unwrap();
        assert_eq!(peer.mutex("nested").try_lock().await.unwrap().is_some(), free);
        sleep(2 * AT_LEAST).await;
    }
}

/// What contradicts itself is refused, and why.
#[test]
fn contradictions_are_refused() {
    let (second, day) = (secs(1), lock_runtime::options::MAX_LEASE);
    for (options, word) in [
        (at_least(Duration::ZERO), "at_least is zero"),
        (at_least(day + second), "at most"),
        (fixed(second).at_least(2 * second), "the fixed lease of 1s"),
        (at_least(2 * second).max_hold(second), "max_hold 1s"),
    ] {
        let error = options.check().unwrap_err();
        assert!(matches!(&error, LockError::InvalidOptions(_)), "{error:?}");
        assert!(error.to_string().contains(word), "{error} does not say {word}");
    }
    for options in
        [at_least(day), fixed(second).at_least(second), at_least(second).max_hold(second)]
    {
        options.check().unwrap();
    }
}
