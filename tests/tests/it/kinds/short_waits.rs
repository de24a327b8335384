//! Waits that are shorter than the store may take to answer (S-15, S-33).

use crate::prelude::*;
use crate::support::kinds::{KINDS_AND_SEVERAL, take_one_or_several, two_in_memory};

const WAIT: Duration = ms(10);

/// What the store gets to answer in, however short the wait is.
const FOR_THE_STORE: Duration = ms(100);

/// How long the quickest of a few short waits lasts: a busy machine delays some.
async fn shortest_wait(what: &str, client: &LockClient, kind: &str) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        let waited = take_one_or_several(client, kind, kind, waits(WAIT)).await;
        shortest = shortest.min(start.elapsed());
        assert!(matches!(waited, Err(LockError::Timeout { .. })), "{what} {kind}: {waited:?}");
    }
    shortest
}

/// A store that answers is not waited for after the end of the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_wait_for_a_busy_lock_is_short() {
    let server = RedisServer::start().await;
    let redis = (connect(&server).await, connect(&server).await);
    for (client, other) in [two_in_memory(), redis] {
        // Readers share.
        for kind in KINDS_AND_SEVERAL.into_iter().filter(|kind| *kind != "read") {
            for (whose, holder) in [("its own", &client), ("another's", &other)] {
                let held = take_one_or_several(holder, kind, kind, waits(SOON)).await.unwrap();
                let waited = shortest_wait(whose, &client, kind).await;
                assert!((WAIT..FOR_THE_STORE).contains(&waited), "{whose} {kind}: {waited:?}");
                held.release().await.unwrap();
            }
        }
    }
}

/// As the documentation of `wait` says: the store has a tenth of a second for its answer, and then the wait is over, also
/// that of tasks behind others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_wait_gives_the_store_time_to_answer() {
    let (server, proxy, client) = far_world().await;
    let _server = server;
    drop(client.mutex("warm").lock().await.unwrap());
    soon!("it is free", client.mutex("warm").try_lock().await.unwrap().is_some());
    proxy.delay_replies(WAIT * 4);
    // The answer comes after the wait, and it is a grant.
    let mutex = client.mutex("far").wait(WAIT);
    let mut granted = false;
    for _ in 0..20 {
        granted |= mutex.lock().await.is_ok();
    }
    assert!(granted, "no wait of {WAIT:?} gets a free lock over a slow network");
    proxy.black_hole();
    let silent = (0..3).map(|_| {
        let mutex = client.mutex("silent").wait(WAIT);
        lock_tests::spawn(async move {
            let start = Instant::now();
            (mutex.lock().await.map(drop), start.elapsed())
        })
    });
    for waited in join_all(silent).await {
        let (result, waited) = waited.unwrap();
        assert!(matches!(result, Err(LockError::Store(_))), "not known to be busy: {result:?}");
        assert!(waited < patience(FOR_THE_STORE * 20), "{waited:?}");
    }
    proxy.pass();
}
