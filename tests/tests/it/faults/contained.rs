//! Holds and waiters whose surroundings fall away: a guard that hangs after its loss, a runtime that
//! ends, a key that is forbidden, members of a queue that nobody can tell from the dead.

use crate::prelude::*;

const PROMPTLY: Duration = secs(3);

// S-12, S-17: whoever keeps a guard after its loss keeps nobody of its own process waiting.
test_with!(a_lost_guard_delays_no_waiter, world(), async |(_server, client)| {
    let hanging = client.mutex("h").with(watched(ms(600))).lock().await.unwrap();
    let waiter = lock_tests::spawn(client.mutex("h").lock());
    assert!(client.admin().force_release("h").await.unwrap());
    timeout(PROMPTLY, hanging.lost()).await.expect("the loss was not noticed");
    let guard = timeout(PROMPTLY, waiter).await.expect("held up by a lost guard").unwrap().unwrap();
    assert!(guard.token() > hanging.token());
    assert!(matches!(hanging.release().await, Err(LockError::Lost { .. })));
    assert!(!guard.is_lost(), "the lost guard's release ended its successor's hold");
    guard.release().await.unwrap();
});

// S-9: a user who lost the right to one key keeps what it has under the others.
test_with!(a_forbidden_key_costs_only_its_own_hold, RedisServer::start(), async |server| {
    let raw = server.client();
    raw.cmd(&["ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all"]).await;
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
    let client = LockClient::connect(&url).await.unwrap();
    let lease = ms(1_200);
    let mine = client.mutex("mine").with(watched(lease)).lock().await.unwrap();
    let gone = client.mutex("gone").with(watched(lease)).lock().await.unwrap();
    raw.cmd(&["ACL", "SETUSER", "u", "resetkeys", "~*mine*"]).await;
    timeout(lease * 3, gone.lost()).await.expect("it was still renewed");
    sleep(lease).await;
    assert!(!mine.is_lost(), "lost for another's key");
    mine.release().await.unwrap();
});

// S-26: members without a score are given one all at once, and hold nobody up one by one.
test_with!(members_without_a_score_cost_one_lease_in_all, RedisServer::start(), async |server| {
    let raw = server.client();
    raw.cmd(&["RPUSH", "redisson_lock_queue:{f}", "dead:1", "dead:2", "dead:3"]).await;
    // And one with a score and no place: an owner, as anything else may be a user's data.
    let orphan = "0c6d7f3e-5a41-4b7e-9d35-1f2a6c8b4e90:1";
    raw.cmd(&["ZADD", "redisson_lock_timeout:{f}", "99999999999999", orphan]).await;
    let lease = ms(1_000);
    let builder = LockClient::builder().waiter_lease(lease);
    let client = builder.connect(&server.url()).await.unwrap();
    let start = Instant::now();
    let guard = timeout(lease * 8, client.fair_mutex("f").lock()).await.expect("never its turn");
    let waited = start.elapsed();
    assert!(waited < patience(lease * 2), "{waited:?} for three dead members of {lease:?} each");
    guard.unwrap().release().await.unwrap();
    for key in ["redisson_lock_queue:{f}", "redisson_lock_timeout:{f}"] {
        assert!(!raw.exists(key).await, "{key} is left");
    }
});

// S-27, S-33: a short wait over a slow network joins readers as it would take a lock.
test_with!(a_short_wait_joins_over_a_slow_network, far_world(), async |(
    _server,
    proxy,
    client,
)| {
    let first = client.rw_lock("r").read().await.unwrap();
    proxy.delay(ms(15));
    let short = waits(ms(15));
    for _ in 0..3 {
        // Past the time in which the last answer counts.
        sleep(ms(20)).await;
        let joined =
            client.rw_lock("r").with(short.clone()).read().await.expect("no lock is in the way");
        joined.release().await.unwrap();
    }
    proxy.stall();
    let longer = waits(ms(300));
    let error = client.rw_lock("r").with(longer).read().await.unwrap_err();
    assert!(matches!(error, LockError::Store(_)), "silence was taken for a holder: {error:?}");
    proxy.pass();
    first.release().await.unwrap();
});

// S-31: asked for again until the wait ends, and not only for as long as the store may fail.
test_with!(replicas_are_waited_for_as_long_as_was_said, RedisServer::start(), async |server| {
    let builder = LockClient::builder().store_patience(ms(300));
    let client = builder.connect(&server.url()).await.unwrap();
    let options = LockOptions::new().wait(ms(1_500)).replicas(Replicas::new(1, ms(50)));
    let start = Instant::now();
    let error = client.mutex("alone").with(options).lock().await.unwrap_err();
    assert!(matches!(error, LockError::NotReplicated { acked: 0, wanted: 1, .. }), "{error:?}");
    assert!(start.elapsed() >= ms(1_200), "gave up after {:?}", start.elapsed());
    soon!("it is undone", !server.client().exists("alone").await);
});
