//! Locks that count once replicas know of them, and failovers with and without (S-31).

use crate::prelude::*;

/// How long replicas get to acknowledge.
const ACK: Duration = ms(100);

struct World {
    master: RedisServer,
    replica: RedisServer,
    client: LockClient,
}

impl World {
    async fn new() -> Self {
        let master = RedisServer::start().await;
        let replica = RedisServer::builder().replica_of(master.port()).start().await;
        master.wait_for_replicas(1).await;
        let client = connect(&master).await;
        Self { master, replica, client }
    }
}

fn replicated(at_least: u32, wait: impl Into<Wait>) -> LockOptions {
    LockOptions::new().replicas(Replicas::new(at_least, ACK)).wait(wait)
}

fn counts(outcome: Result<LockGuard, LockError>) -> (usize, usize) {
    match outcome {
        Err(ref error @ LockError::NotReplicated { acked, wanted, timeout, .. }) => {
            let of =
                format!("reached {acked} of {wanted} replicas in {timeout:?} and was released");
            assert!(error.to_string().contains(&of), "{error}");
            (acked, wanted)
        }
        Err(error) => panic!("{error:?}"),
        Ok(guard) => panic!("granted: {guard:?}"),
    }
}

test_with!(a_grant_is_on_the_replica, RedisServer::start(), async |master| {
    let road = Proxy::start(master.port()).await;
    let replica = RedisServer::builder().replica_of(road.port()).start().await;
    master.wait_for_replicas(1).await;
    let client = connect(&master).await;
    road.delay(ms(60));
    let options = LockOptions::new().replicas(Replicas::new(1, secs(5))).wait(Wait::None);
    for (kind, _) in KINDS {
        let guard = take_named(&client, kind, options.clone()).await.unwrap();
        assert!(replica.client().exists(kind).await, "{kind}: the replica does not know");
        guard.release().await.unwrap();
    }
});

// S-31: a replica that has stopped, no replica, and one too few fail closed: nothing stays taken,
// and the error says how many there were, at the end of the wait and not before.
test_with!(too_few_replicas_fail_closed, World::new(), async |world| {
    let wait = ms(600);
    let failed = async |at_least, acked| {
        for (kind, _) in KINDS {
            let start = Instant::now();
            let outcome = take_named(&world.client, kind, replicated(at_least, wait)).await;
            // The last attempt may be short, and its number with it.
            let (last, wanted) = counts(outcome);
            assert!(last <= acked && wanted == at_least as usize, "{kind}: {last} of {wanted}");
            let waited = start.elapsed();
            assert!(waited >= wait && waited < patience(4 * wait), "{kind}: {waited:?}");
            let free = waits(secs(2));
            let guard = take_named(&world.client, kind, free).await.expect("left behind");
            guard.release().await.unwrap();
            let outcome = take_named(&world.client, kind, replicated(at_least, Wait::None)).await;
            assert_eq!(counts(outcome), (acked, at_least as usize), "{kind}");
        }
    };
    failed(2, 1).await;
    world.replica.pause();
    failed(1, 0).await;
    world.replica.resume();
    for (kind, _) in KINDS {
        let guard = take_named(&world.client, kind, replicated(1, SOON)).await.unwrap();
        guard.release().await.unwrap();
    }
    world.replica.kill();
    failed(1, 0).await;
});

// S-31: replicas have no longer than the wait, and the error names that time.
test_with!(a_wait_ends_the_time_of_replicas, World::new(), async |world| {
    let (wait, start) = (ms(600), Instant::now());
    let options = LockOptions::new().replicas(Replicas::new(2, secs(10))).wait(wait);
    let error = world.client.mutex("m").with(options).lock().await.unwrap_err();
    let LockError::NotReplicated { acked: 1, wanted: 2, timeout, .. } = error else {
        panic!("{error:?}");
    };
    let took = start.elapsed();
    let in_time = timeout >= wait / 2 && timeout <= took && took < patience(secs(5));
    assert!(in_time, "{timeout:?} of {took:?}");
});

// S-31: a waiting task has the lock as soon as the replica is back, within its one call.
test_with!(a_replica_that_comes_back_ends_the_wait, World::new(), async |world| {
    world.replica.pause();
    for (kind, _) in KINDS {
        let client = world.client.clone();
        let waiter =
            lock_tests::spawn(async move { take_named(&client, kind, replicated(1, SOON)).await });
        tokio::time::sleep(3 * ACK).await;
        assert!(!waiter.is_finished(), "{kind}");
        world.replica.resume();
        let guard = timeout(SOON, waiter).await.expect("hung").unwrap().unwrap();
        world.replica.pause();
        guard.release().await.unwrap();
    }
    world.replica.resume();
});

// S-26: whoever had to give a fair lock back lines up anew, and is told when its turn comes: behind another process, and right after a
// waiter of its own.
test_with!(a_fair_waiter_hears_of_its_second_turn, World::new(), async |world| {
    let quiet = LockClient::builder().waiter_lease(SOON * 3).poll_cap(SOON);
    let client = quiet.connect(&world.master.url()).await.unwrap();
    let waiting = async |n| {
        let raw = world.master.client();
        let length = async || raw.get::<usize>(&["LLEN", "redisson_lock_queue:{fair}"]).await;
        soon!("it is in line", length().await == n);
    };
    for (next, is_own) in [(&world.client, false), (&client, true)] {
        world.replica.pause();
        let first = world.client.fair_mutex("fair").lock().await.unwrap();
        let waiter = client.fair_mutex("fair").with(replicated(1, SOON));
        let mut waiter = lock_tests::spawn(waiter.lock());
        waiting(1).await;
        let second = lock_tests::spawn(next.fair_mutex("fair").lock());
        waiting(2).await;
        first.release().await.unwrap();
        // The waiter has it first and cannot keep it.
        let second = timeout(SOON, second).await.expect("never given back").unwrap().unwrap();
        waiting(1).await;
        world.replica.resume();
        if !is_own {
            let early = timeout(3 * ACK, &mut waiter).await;
            assert!(early.is_err(), "two have it: {early:?}");
        }
        second.release().await.unwrap();
        let guard = timeout(secs(3), waiter).await.expect("not told").unwrap().unwrap();
        guard.release().await.unwrap();
    }
});

// S-14, S-31: a hold that no replica knows of is not handed to whoever asked for one.
test_with!(a_hand_off_keeps_the_replicas, World::new(), async |world| {
    world.replica.pause();
    let client = LockClient::builder().handoff_window(SOON);
    let client = client.connect(&world.master.url()).await.unwrap();
    let mutex = client.mutex("line");
    let first = mutex.lock().await.unwrap();
    // Polled once, each has its place in line.
    let mut second = Box::pin(client.mutex("line").lock());
    assert!(poll!(second.as_mut()).is_pending());
    let mut third = Box::pin(client.mutex("line").with(replicated(1, secs(1))).lock());
    assert!(poll!(third.as_mut()).is_pending());
    let (second, third) = (lock_tests::spawn(second), lock_tests::spawn(third));
    first.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(counts(third.await.unwrap()), (0, 1));
    world.replica.resume();
});

// S-27, S-31: nor does a reader who asked for a replica join a hold that none knows of.
test_with!(a_shared_read_hold_keeps_the_replicas, World::new(), async |world| {
    let plain = LockOptions::default();
    world.replica.pause();
    let first = take_named(&world.client, "read", plain).await.unwrap();
    for wait in [Wait::None, Wait::UpTo(ms(400))] {
        assert_eq!(counts(take_named(&world.client, "read", replicated(1, wait)).await), (0, 1));
    }
    assert!(!first.is_lost());
    world.replica.resume();
    let second = take_named(&world.client, "read", replicated(1, SOON)).await.unwrap();
    assert!(world.replica.client().exists("read").await, "the replica does not know");
    first.release().await.unwrap();
    second.release().await.unwrap();
});

// S-21, S-22, S-33: the same connection faults as without replicas.
test_with!(lost_replies_and_flushed_scripts_are_made_good, World::new(), async |world| {
    let proxy = Proxy::start(world.master.port()).await;
    let client = connect(&proxy).await;
    for (kind, _) in KINDS {
        world.master.client().cmd(&["SCRIPT", "FLUSH"]).await;
        let guard = take_named(&client, kind, replicated(1, SOON)).await.unwrap();
        guard.release().await.unwrap();
        proxy.drop_next_reply_to(kind);
        let guard = timeout(SOON, take_named(&client, kind, replicated(1, SOON))).await;
        let guard = guard.expect("hung").unwrap();
        proxy.drop_next_reply_to(kind);
        timeout(SOON, guard.release()).await.expect("hung").unwrap();
    }
    assert_eq!(proxy.replies_dropped(), 2 * KINDS.len());
});

// S-21: dropped in the middle of its WAIT, the lock is given back at once.
test_with!(a_dropped_wait_is_undone, World::new(), async |world| {
    world.replica.pause();
    let options = LockOptions::new().replicas(Replicas::new(1, secs(5)));
    for (kind, _) in KINDS {
        let (client, options) = (world.client.clone(), options.clone());
        let waiter = lock_tests::spawn(async move { take_named(&client, kind, options).await });
        let raw = world.master.client();
        soon!("it is taken", raw.exists(kind).await);
        waiter.abort();
        let free = waits(secs(2));
        take_named(&world.client, kind, free).await.expect("left behind").release().await.unwrap();
    }
    world.replica.resume();
});

// S-33: a user that may not WAIT hears so, and keeps nothing.
test_with!(wait_needs_a_permission, World::new(), async |world| {
    let raw = world.master.client();
    raw.cmd(&["ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-wait"]).await;
    let url = format!("redis://u:pw@127.0.0.1:{}", world.master.port());
    let client = LockClient::connect(&url).await.unwrap();
    let error = take_named(&client, "mutex", replicated(1, SOON)).await.unwrap_err();
    assert_eq!(store_kind(&error), Some(StoreErrorKind::Denied), "{error:?}");
    soon!("it is free", !raw.exists("mutex").await);
});
