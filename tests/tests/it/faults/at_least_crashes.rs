//! Locks that are kept for `at_least` although their process dies (`LockOptions::at_least`).

use kinds::take_one_or_several as take;
use kinds::{KINDS_AND_SEVERAL, rival, two_in_memory};

use crate::prelude::*;
use crate::support::kinds;

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

// S-10: a process that dies before it lets go keeps its lock for `at_least`, if that is more than its lease.
test_with!(a_process_that_dies_early_keeps_it, RedisServer::start(), async |server| {
    let (in_memory, peer) = two_in_memory();
    let servers: Vec<_> = (0..3).map(|_| MemoryStore::new()).collect();
    let quorum = || {
        let stores = servers.iter().map(|store| Arc::new(store.peer()) as Arc<dyn Store>);
        LockClient::builder().quorum_of(stores, RestartGuard::Off).unwrap()
    };
    let lasting = ms(1500);
    let options = LockOptions::new().at_least(lasting).lease(Lease::Watchdog(ms(300)));
    let is_kept = async |place: &str, kind: &str, start: Instant, peer: LockClient| {
        let next = timeout(SOON, take(&peer, rival(kind), kind, LockOptions::default())).await;
        let kept = start.elapsed();
        let next = next.unwrap_or_else(|_| panic!("{place}, {kind}: never free"));
        next.unwrap().release().await.unwrap();
        assert!(kept >= lasting, "{place}, {kind}: free after {kept:?}");
    };
    for kind in KINDS_AND_SEVERAL {
        let (start, client, url) = (Instant::now(), in_memory.clone(), server.url());
        take_and_die(async || client, kind, options.clone()).await;
        let on_redis = async move || LockClient::connect(&url).await.unwrap();
        take_and_die(on_redis, kind, options.clone()).await;
        let other = connect(&server).await;
        tokio::join!(
            is_kept("memory", kind, start, peer.clone()),
            is_kept("redis", kind, start, other)
        );
    }
    let (start, client) = (Instant::now(), quorum());
    take_and_die(async || client, "mutex", options).await;
    is_kept("quorum", "mutex", start, quorum()).await;
});
