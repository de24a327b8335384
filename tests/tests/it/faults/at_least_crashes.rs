//! Locks that are kept for `at_least` although their process dies (`LockOptions::at_least`).

use kinds::take_one_or_several as take;
use kinds::{KINDS_AND_SEVERAL, two_in_memory};

use crate::prelude::*;
use crate::support::kinds;

fn at_least(at_least: Duration) -> LockOptions {
    LockOptions::new().at_least(at_least)
}

/// A client whose runtime ends with a lock taken and its guard forgotten: no client renews or releases it, as when
/// the process dies.
async fn take_and_die(
    client: impl AsyncFnOnce() -> LockClient + Send + 'static,
    kind: &'static str,
    options: LockOptions,
) {
    let dies = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = client().await;
            std::mem::forget(take(&client, kind, kind, options).await.unwrap());
        });
    };
    tokio::task::spawn_blocking(dies).await.unwrap();
}

/// S-10: a process that dies before it lets go keeps its lock for `at_least`, if that is more than its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_early_keeps_it() {
    let server = RedisServer::start().await;
    let (in_memory, peer) = two_in_memory();
    let servers: Vec<_> = (0..3).map(|_| MemoryStore::new()).collect();
    let quorum = || {
        let stores = servers.iter().map(|store| Arc::new(store.peer()) as Arc<dyn Store>);
        LockClient::builder().quorum_of(stores, RestartGuard::Off).unwrap()
    };
    let lasting = ms(1500);
    let lease = Lease::Watchdog(ms(300));
    let options = at_least(lasting).lease(lease);
    let is_kept = async |place: &str, kind: &str, start: Instant, peer: LockClient| {
        let rivals = if kind == "read" { "write" } else { kind };
        let next = timeout(SOON, take(&peer, rivals, kind, LockOptions::default())).await;
        let kept = start.elapsed();
        next.unwrap_or_else(|_| panic!("{place}, {kind}: never free"))
            .unwrap()
            .release()
            .await
            .unwrap();
        assert!(kept >= lasting, "{place}, {kind}: free after {kept:?}");
    };
    for kind in KINDS_AND_SEVERAL {
        let start = Instant::now();
        let client = in_memory.clone();
        take_and_die(async || client, kind, options.clone()).await;
        let url = server.url();
        take_and_die(async move || LockClient::connect(&url).await.unwrap(), kind, options.clone())
            .await;
        let other = connect(&server).await;
        tokio::join!(
            is_kept("memory", kind, start, peer.clone()),
            is_kept("redis", kind, start, other)
        );
    }
    let (start, client) = (Instant::now(), quorum());
    take_and_die(async || client, "mutex", options).await;
    is_kept("quorum", "mutex", start, quorum()).await;
}

/// S-14: a hold whose lease is shorter than `at_least` is not handed on to a task that asks for that.
#[tokio::test(start_paused = true)]
async fn a_shorter_hold_is_not_handed_on() {
    let (client, peer) = two_in_memory();
    let outside = peer.mutex("short").lock().await.unwrap();
    let line = |options| lock_tests::spawn(client.mutex("short").with(options).lock());
    let first = line(LockOptions::default());
    tokio::task::yield_now().await;
    let long = secs(300);
    let second = line(at_least(long));
    sleep(ms(50)).await;
    outside.release().await.unwrap();
    first.await.unwrap().unwrap().release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    let left = peer.admin().inspect("short").await.unwrap().remaining.unwrap();
    assert!(left > long - secs(1), "the store keeps it for {left:?}");
    drop(second);
}
