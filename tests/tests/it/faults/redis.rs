//! Ways to reach a server, and values of others at the names of locks.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unix_sockets_and_databases_work() {
    let server = RedisServer::builder().unix_socket().start().await;
    let guard = connect(&server).await.mutex("unix").lock().await.unwrap();
    assert!(server.client().exists("unix").await);
    guard.release().await.unwrap();
    let server = RedisServer::start().await;
    let client = LockClient::connect(&format!("{}/3", server.url())).await.unwrap();
    let guard = client.mutex("db").lock().await.unwrap();
    assert!(!server.client().exists("db").await);
    guard.release().await.unwrap();
}

// S-32: another type at the name, or another kind of lock.
test_with!(a_foreign_value_is_a_collision, world(), async |(server, client)| {
    let raw = server.client();
    raw.cmd(&["SADD", "set", "x"]).await;
    raw.cmd(&["SET", "string", "x", "NX"]).await;
    let _fair = client.fair_mutex("fair").lock().await.unwrap();
    raw.cmd(&["HSET", "rw", "mode", "read", "peer:1", "1"]).await;
    raw.cmd(&["SET", "redisson_lock_token:{fence}", "words"]).await;
    for (name, found) in [
        ("set", "the key holds a set"),
        ("rw", "the key holds a hash that is no lock"),
        ("string", "the key holds a string, as `SET NX` leaves"),
        ("fair", "the key holds a fair mutex"),
        ("fence", "the fencing counter is not a number"),
    ] {
        let error = client.mutex(name).lock().await.unwrap_err();
        assert!(
            matches!(&error, LockError::KeyCollision { found: f, .. } if f.as_str() == found),
            "{error:?}"
        );
    }
    let left: String = raw.get(&["GET", "redisson_lock_token:{fence}"]).await;
    assert_eq!(left, "words", "another program's value was overwritten");
    assert!(!raw.exists("fence").await, "a lock was left without a token");
});
