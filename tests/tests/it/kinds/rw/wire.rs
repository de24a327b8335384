//! What Redis sees, and what it costs (S-2, S-16, S-19, S-27).

use crate::kinds::rw::*;

const LEASE: Duration = secs(20);

async fn expires_like_a_lease(raw: &RawClient, key: &str) {
    let pttl = left(raw.pttl(key).await);
    assert!(pttl <= LEASE && pttl > LEASE / 2, "{key}: {pttl:?}");
}

/// Redisson's hash, fields, per-hold keys and messages; nothing but the counter afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_have_redissons_layout() {
    let (server, client) = world().await;
    let raw = server.client();
    let log = server.subscribe_log("redisson_rwlock:{l}").await;
    let lock = client.rw_lock("l").with(watched(LEASE));

    let reader = lock.read().await.unwrap();
    let hash = raw.hgetall("l").await;
    let [(owner, count)] = &holds(&server, "l").await[..] else { panic!("{hash:?}") };
    assert_eq!((hash["mode"].as_str(), count.as_str()), ("read", "1"), "{hash:?}");
    let (uuid, hold) = owner.split_once(':').unwrap();
    assert_eq!((uuid.len(), hold), (36, "1"));
    let hold_end = format!("{{l}}:{owner}:rwlock_timeout:1");
    let counter = "redisson_lock_token:{l}";
    assert_eq!(raw.keys().await, ["l", counter, &hold_end]);
    assert_eq!(raw.get::<String>(&["GET", &hold_end]).await, "1");
    expires_like_a_lease(&raw, &hold_end).await;
    expires_like_a_lease(&raw, "l").await;
    reader.release().await.unwrap();
    assert_eq!(log.wait_for(1, PROMPTLY).await, ["0"]);
    assert_eq!(raw.keys().await, [counter]);

    let writer = lock.write().await.unwrap();
    let hash = raw.hgetall("l").await;
    let owner = format!("{uuid}:2");
    let shown = [("mode", "write"), (&format!("{owner}:write"), "1")];
    let shown = shown.map(|(field, value)| (field.to_owned(), value.to_owned()));
    assert_eq!(hash, BTreeMap::from(shown));
    assert_eq!(raw.keys().await, ["l", counter]);
    expires_like_a_lease(&raw, "l").await;
    let inside = writer.run(lock.read()).await.unwrap().unwrap();
    let hash = raw.hgetall("l").await;
    assert_eq!((hash.len(), hash["mode"].as_str()), (3, "write"), "{hash:?}");
    inside.release().await.unwrap();
    assert_eq!(raw.keys().await, ["l", counter]);
    assert_eq!(log.payloads().len(), 1, "a read side inside a writer published");
    writer.release().await.unwrap();
    assert_eq!(log.wait_for(2, PROMPTLY).await, ["0", "1"]);
    assert_eq!(raw.keys().await, [counter]);
}

/// S-2: a name that carries its own hash tag keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_tag_in_the_name_is_kept() {
    let (server, client) = world().await;
    let guard = client.rw_lock("order:{42}").read().await.unwrap();
    let keys = server.client().keys().await;
    let [name, hold_end, counter] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!((name.as_str(), counter.as_str()), ("order:{42}", "redisson_lock_token:order:{42}"));
    assert!(hold_end.starts_with("order:{42}:") && hold_end.ends_with(":1:rwlock_timeout:1"));
    guard.release().await.unwrap();
}

/// S-6: nothing depends on the count that is shown; whatever it says, its hold counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_count_ends_no_hold() {
    let (server, client) = world().await;
    let other = crate::kinds::rw::connect(&server).await;
    let reader = client.rw_lock("c").read().await.unwrap();
    for count in ["0", "3", "40"] {
        let (owner, _) = holds(&server, "c").await.remove(0);
        server.client().cmd(&["HSET", "c", &owner, count]).await;
        other.rw_lock("c").read().await.unwrap().release().await.unwrap();
        assert!(other.rw_lock("c").try_write().await.unwrap().is_none(), "overlooked at {count}");
    }
    reader.release().await.unwrap();
    nothing_left(&server, "c").await;
}

/// S-19: keeping, giving back, giving up and downgrading need no memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_memory_keeps_frees_and_downgrades() {
    let (server, client) = world().await;
    let raw = server.client();
    let lease = ms(900);
    let lock = |name: &str| client.rw_lock(name).with(watched(lease));
    let reader = lock("r").read().await.unwrap();
    let waiting = writing(&client, "r");
    crate::kinds::rw::announced(&server, "r", 1).await;
    let writer = lock("w").write().await.unwrap();
    let inside = writer.run(lock("w").read()).await.unwrap().unwrap();
    raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for error in [lock("o").read().await.unwrap_err(), lock("o").write().await.unwrap_err()] {
        let LockError::Store(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), StoreErrorKind::OutOfMemory);
    }
    assert!(!raw.exists("o").await);
    tokio::time::sleep(lease * 2).await;
    for guard in [&reader, &writer, &inside] {
        assert!(!guard.is_lost(), "a renewal needed memory: {guard:?}");
    }
    writer.release().await.unwrap();
    assert_eq!(raw.hgetall("w").await["mode"], "read", "not downgraded");
    inside.release().await.unwrap();
    assert!(!raw.exists("w").await);
    waiting.abort();
    crate::kinds::rw::announced(&server, "r", 0).await;
    reader.release().await.unwrap();
    assert!(!raw.exists("r").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_waiter_listens_for_longer_than_it_waits() {
    let (server, client) = world().await;
    let writer = client.rw_lock("s").write().await.unwrap();
    let waiter = reading(&client, "s");
    listening(&server, "s", 1).await;
    writer.release().await.unwrap();
    got(waiter, PROMPTLY).await.release().await.unwrap();
    listening(&server, "s", 0).await;
    assert!(matches!(server.client().pttl("s").await, Ttl::Missing));
    nothing_left(&server, "s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_readers_cost_little() {
    let (server, client) = world().await;
    let raw = server.client();
    raw.cmd(&["HSET", "many", "mode", "read"]).await;
    for n in 0..50 {
        // Of ours: one time-out each, however many local readers.
        let count = if n % 2 == 0 { "20" } else { "1000" };
        raw.cmd(&["HSET", "many", &format!("peer:{n}"), count]).await;
        let hold_end = format!("{{many}}:peer:{n}:rwlock_timeout:1");
        raw.cmd(&["SET", &hold_end, "1", "PX", "60000"]).await;
    }
    raw.cmd(&["PEXPIRE", "many", "60000"]).await;
    let lock = client.rw_lock("many");
    lock.read().await.unwrap().release().await.unwrap();
    assert!(lock.try_write().await.unwrap().is_none());
    server.reset_stats().await;
    lock.read().await.unwrap().release().await.unwrap();
    let read = server.command_calls().await["pttl"];
    server.reset_stats().await;
    assert!(lock.try_write().await.unwrap().is_none());
    let write = server.command_calls().await["pttl"];
    assert!(read < 70 && write < 70, "{read} look-ups by a reader, {write} by a writer");
    assert_eq!(holds(&server, "many").await.len(), 50);
}
