//! One name as two kinds of locks: never two holders, and an error wherever the data tells (S-32).

use crate::prelude::*;

fn collides<T>(outcome: &Result<T, LockError>) -> bool {
    matches!(outcome, Err(LockError::KeyCollision { .. }))
}

/// S-28: several mutexes at once hold each as one does. And a semaphore keeps its name when no permit is in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_and_a_free_semaphore_have_their_kind() {
    let (_server, client) = world().await;
    take(&client, "semaphore", "s", waits(SOON)).await.unwrap().release().await.unwrap();
    let both = client.multi_lock(["a", "b"]).lock().await.unwrap();
    for (kind, _) in KINDS {
        let outcome = take(&client, kind, "s", waits(Wait::None)).await;
        assert_eq!(collides(&outcome), kind != "semaphore", "{kind}: {outcome:?}");
        let outcome = take(&client, kind, "b", waits(Wait::None)).await;
        let is_busy = matches!(outcome, Err(LockError::Busy { .. }));
        assert!(if kind == "mutex" { is_busy } else { collides(&outcome) }, "{kind}: {outcome:?}");
    }
    both.release().await.unwrap();
}

/// S-30: a latch is no lock, though a number like the free permits of a semaphore, whatever its
/// count and whoever made it; and no lock is a latch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_is_no_lock() {
    let (server, client) = world().await;
    let raw = server.client();
    for (kind, _) in KINDS {
        for count in [1, 3] {
            let ours = format!("{kind}:{count}");
            client.latch(&ours).try_set_count(count).await.unwrap();
            let taken = take(&client, kind, &ours, waits(SOON)).await;
            assert!(collides(&taken), "{ours}: {taken:?}");
            assert_eq!(client.latch(&ours).count().await.unwrap(), u64::from(count));
            let found = client.admin().inspect(&ours).await.unwrap();
            assert_eq!(found.kind, Some(HoldKind::Latch), "{ours}");
            assert!(!client.admin().force_release(&ours).await.unwrap(), "{ours} was freed");
        }
        // Redisson's has no end. The only permit is what `take` wants of a semaphore.
        let theirs = format!("{kind}:java");
        raw.cmd(&["SET", &theirs, "3"]).await;
        let taken = take(&client, kind, &theirs, waits(SOON)).await;
        assert!(collides(&taken), "{theirs}: {taken:?}");
        assert_eq!(client.latch(&theirs).count_down().await.unwrap(), 2);

        let guard = take(&client, kind, kind, waits(SOON)).await.unwrap();
        is_no_latch(&client, kind).await;
        guard.release().await.unwrap();
    }
    // Redisson's semaphore of two permits, one of which is in use.
    raw.cmd(&["SET", "java", "1"]).await;
    raw.cmd(&["ZADD", "{java}:timeout", "922337203685477", "peer"]).await;
    raw.cmd(&["SET", "text", "abc"]).await;
    for (name, value) in [("java", "1"), ("text", "abc")] {
        is_no_latch(&client, name).await;
        assert_eq!(raw.get::<String>(&["GET", name]).await, value, "it was touched");
    }
}

async fn is_no_latch(client: &LockClient, name: &str) {
    let latch = client.latch(name);
    for outcome in [
        latch.try_set_count(1).await.map(drop),
        latch.count_down().await.map(drop),
        latch.count().await.map(drop),
        latch.remove().await.map(drop),
        latch.reached().await,
    ] {
        assert!(collides(&outcome), "{name}: {outcome:?}");
    }
}

/// S-30: a latch is one also where a semaphore's counter is left, and a semaphore is none for a
/// permit of Redisson's that outlives every latch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_ends_are_told_apart() {
    let (server, client) = world().await;
    let raw = server.client();
    take(&client, "semaphore", "left", waits(SOON)).await.unwrap().release().await.unwrap();
    assert!(raw.del("left").await, "no free permits were left");
    assert!(client.latch("left").try_set_count(1).await.unwrap());
    assert_eq!(client.latch("left").count_down().await.unwrap(), 0);

    let two = 2.try_into().unwrap();
    let years = secs(60 * 365 * 24 * 60 * 60).as_millis();
    let (seconds, _): (u128, u128) = raw.get(&["TIME"]).await;
    for (name, end) in [
        ("endless", "922337203685477".to_owned()),
        ("a-lifetime", (seconds * 1000 + years).to_string()),
    ] {
        client.semaphore(name, two).acquire().await.unwrap().release().await.unwrap();
        raw.cmd(&["DECRBY", name, "1"]).await;
        raw.cmd(&["ZADD", &format!("{{{name}}}:timeout"), &end, "peer"]).await;
        for _ in 0..2 {
            let permit = client.semaphore(name, two).acquire().await.unwrap();
            assert_eq!(client.admin().inspect(name).await.unwrap().kind, Some(HoldKind::Semaphore));
            permit.release().await.unwrap();
        }
        // As a day later.
        raw.cmd(&["DEL", &format!("redisson_lock_token:{{{name}}}")]).await;
        is_no_latch(&client, name).await;
    }
}

/// S-17, S-26: who waits fairly when a plain mutex of ours takes the name is told, and leaves the
/// line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fair_waiter_that_finds_a_mutex_leaves_the_line() {
    let (server, client) = world().await;
    let raw = server.client();
    let guard = client.fair_mutex("f").lock().await.unwrap();
    let waiter = lock_tests::spawn(client.fair_mutex("f").with(waits(SOON)).lock());
    let queue = "redisson_lock_queue:{f}";
    soon!("it is in line", raw.exists(queue).await);
    // As if it had ended, and a mutex had come before those in line.
    let mutex = client.mutex("m").lock().await.unwrap();
    raw.cmd(&["RENAME", "m", "f"]).await;
    let told = timeout(SOON, waiter).await.expect("hangs").unwrap();
    assert!(collides(&told), "{told:?}");
    soon!("it has left", !raw.exists(queue).await);
    drop((mutex, guard));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_users_hash_is_left_alone() {
    let (server, client) = world().await;
    let raw = server.client();
    for mode in ["dark", "", "read", "write", "fair"] {
        for (kind, _) in KINDS {
            for ttl in [None, Some("3600000")] {
                let name = format!("{mode}:{kind}:{ttl:?}");
                raw.cmd(&["HSET", &name, "mode", mode]).await;
                // Also one that has no field but its mode.
                if ttl.is_some() || kind != "read" {
                    raw.cmd(&["HSET", &name, "theme", "5", "GET:200", "7"]).await;
                }
                if let Some(ttl) = ttl {
                    raw.cmd(&["PEXPIRE", &name, ttl]).await;
                }
                let before: Vec<u8> = raw.get(&["DUMP", &name]).await;
                let end: i64 = raw.get(&["PEXPIRETIME", &name]).await;
                let outcome = take(&client, kind, &name, waits(Wait::None)).await;
                // A hash that says `write` or `fair` is not told from a lock while it lasts.
                let refused = match outcome {
                    Err(LockError::KeyCollision { .. }) => true,
                    Err(LockError::Busy { .. }) => mode == "write" || mode == "fair",
                    _ => false,
                };
                assert!(refused, "{name}: {outcome:?}");
                assert_eq!(raw.get::<Vec<u8>>(&["DUMP", &name]).await, before, "{name}: changed");
                assert_eq!(raw.get::<i64>(&["PEXPIRETIME", &name]).await, end, "{name}: ends");
            }
        }
    }
}

/// S-19, S-32: another program's data at a key beside the lock is an error, and leaves no hold behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_beside_a_write_lock_leaves_no_hold() {
    let (server, client) = world().await;
    let raw = server.client();
    let [announced, readers, due] =
        ["writers", "readers", "due_readers"].map(|which| format!("redisson_rwlock_{which}:{{w}}"));
    for beside in [&announced, &readers, &due] {
        raw.cmd(&["SET", beside, "x"]).await;
        let taken = client.rw_lock("w").try_write().await;
        assert!(collides(&taken), "{beside}: {taken:?}");
        if *beside != announced {
            let taken = client.rw_lock("w").try_read().await;
            assert!(collides(&taken), "{beside}: {taken:?}");
        }
        assert!(!raw.exists("w").await, "a hold that no task has");
        assert_eq!(raw.get::<String>(&["GETDEL", beside]).await, "x");
    }
    let guard = client.rw_lock("w").write().await.unwrap();
    raw.cmd(&["SET", &announced, "x"]).await;
    guard.release().await.unwrap();
    assert!(!raw.exists("w").await, "a hold that nobody gives back");
}

/// S-19, S-26, S-32: another program's data at a key beside a fair lock stays, whatever its type, and does not prevent the
/// release; a waiter, which needs the key, is told of the collision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_beside_a_fair_lock_is_left_alone() {
    let (server, client) = world().await;
    let raw = server.client();
    let other = connect(&server).await;
    let kept = LockOptions::new().at_least(ms(1_500));
    for key in ["redisson_lock_timeout:{f}", "redisson_lock_queue:{f}"] {
        for create in [
            &["SET", key, "x"][..],
            &["HSET", key, "theme", "dark"],
            &["SADD", key, "x"],
            &["RPUSH", key, "x"],
            &["ZADD", key, "1", "x"],
        ] {
            // A list at the queue's key is a queue, with a waiter that is no client.
            if key.contains("queue") && create[0] == "RPUSH" {
                continue;
            }
            for lock in [client.fair_mutex("f"), client.fair_mutex("f").with(kept.clone())] {
                let guard = lock.lock().await.unwrap();
                raw.cmd(create).await;
                let before: Vec<u8> = raw.get(&["DUMP", key]).await;
                let wants = other.fair_mutex("f").with(waits(ms(300))).lock().await;
                let is_scores = key.contains("timeout") && create[0] == "ZADD";
                assert!(collides(&wants) || is_scores, "{create:?}: {wants:?}");
                guard.release().await.unwrap_or_else(|error| panic!("{create:?}: {error:?}"));
                soon!("the lock is free", !raw.exists("f").await);
                // A waiter that gives up is told so before its place is gone.
                soon!("the data is left", raw.get::<Vec<u8>>(&["DUMP", key]).await == before);
                let guard = other.fair_mutex("f").with(waits(SOON)).lock().await;
                if key.contains("timeout") {
                    // A free lock without a line needs no scores.
                    assert!(client.admin().force_release("f").await.unwrap(), "{create:?}");
                    assert!(guard.unwrap().release().await.is_err());
                } else {
                    assert!(collides(&guard), "{create:?}");
                }
                assert_eq!(raw.get::<Vec<u8>>(&["DUMP", key]).await, before, "{create:?}");
                raw.del(key).await;
            }
        }
    }
}
