//! Shadow mode (`enforce`): who asks a silent store for a sign of life, and what is one.

use tokio::runtime::Handle;

use crate::observe::shadow::{A_LOOK, NOTICED};
use crate::prelude::*;

/// A lock of a store that is found to be silent.
async fn silent() -> (RedisServer, LockClient, AnyLock) {
    let (server, client) = world().await;
    let lock = client.any_lock(LockKind::Mutex, ["job"]);
    lock.shadow_lock().await.unwrap().release().await.unwrap();
    server.pause();
    assert!(lock.shadow_lock().await.is_err());
    (server, client, lock)
}

/// However many calls there are, one task asks.
#[tokio::test]
async fn one_asks_for_all() {
    let (server, _client, lock) = silent().await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..500 {
        assert!(lock.shadow_lock().await.is_err());
    }
    assert!(tasks() < before + 10, "{} tasks, {before} before", tasks());
    server.resume();
}

#[tokio::test]
async fn a_refusal_is_a_sign_of_life() {
    let (server, _client, lock) = silent().await;
    server.resume();
    server.client().cmd(&["ACL", "SETUSER", "default", "-@scripting"]).await;
    let refused = async || match lock.shadow_lock().await {
        Err(LockError::Store(error)) => error.kind() == StoreErrorKind::Denied,
        _ => false,
    };
    eventually(NOTICED, "the store is asked again", refused).await;
}

/// One release finds out that the store is silent; those after it do not wait. A loss is told all the same.
#[tokio::test]
async fn one_release_waits_for_all() {
    let (server, client) = world().await;
    let brief = fixed(ms(300));
    let look = async |name| client.any_lock(LockKind::Mutex, [name]).shadow_lock().await.unwrap();
    let (first, second) = (look("a").await, look("b").await);
    let lost = client.any_lock(LockKind::Mutex, ["c"]).with(brief).shadow_lock().await.unwrap();
    server.pause();
    let start = Instant::now();
    first.release().await.unwrap();
    let waited = start.elapsed();
    assert!(waited >= A_LOOK * 9 / 10, "the store was not silent: {waited:?}");
    let start = Instant::now();
    second.release().await.unwrap();
    assert!(start.elapsed() < patience(waited / 2), "{:?} after {waited:?}", start.elapsed());
    lost.lost().await;
    assert!(lost.release().await.unwrap_err().is_lost());
    server.resume();
    let free = async || server.client().keys().await.iter().all(|key| key.contains("token"));
    eventually(NOTICED, "all is given back", free).await;
}
