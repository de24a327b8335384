//! What the store still has of holds that were lost, or extended without an answer, is released as long as the store may keep
//! it: an outage that is longer than the lease leaves every lock free.

use kinds::take_one_or_several as take;
use kinds::{KINDS_AND_SEVERAL, rival};

use crate::prelude::*;
use crate::support::kinds;
use crate::support::troubled::{Trouble, Troubled};

const LEASE: Duration = ms(500);

/// Longer than the lease and anything that is added to it.
const OUTAGE: Duration = secs(4);

/// What the store was told to keep them for.
const LONG: Duration = secs(60);

/// Answers nothing and changes nothing.
const AWAY: Trouble = Trouble::Fails(StoreErrorKind::Unavailable);

async fn is_free_soon(other: &LockClient, kind: &str) {
    let next = timeout(SOON, take(other, rival(kind), kind, LockOptions::default())).await;
    let next = next.unwrap_or_else(|_| panic!("{kind}: stays taken"));
    next.unwrap().release().await.unwrap();
}

/// The holds are lost while the store is away, and let go then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_before_at_least_is_freed_after_the_outage() {
    let (server, proxy, client) = far_world().await;
    let other = connect(&server).await;
    let long_kept = LockOptions::new().at_least(LONG).lease(Lease::Watchdog(LEASE));
    let held = KINDS_AND_SEVERAL
        .map(async |kind| take(&client, kind, kind, long_kept.clone()).await.unwrap());
    let held = join_all(held).await;
    proxy.refuse();
    proxy.reset_all();
    let start = Instant::now();
    for guard in held {
        let lost = timeout(SOON, guard.lost()).await.expect("not lost");
        assert!(lost.is_lost(), "{lost:?}");
        drop(guard);
    }
    // That the outage lasts is what this is about.
    tokio::time::sleep_until(start + OUTAGE).await;
    proxy.pass();
    for kind in KINDS_AND_SEVERAL {
        is_free_soon(&other, kind).await;
    }
    assert!(client.shutdown(SOON).await.is_clean());
}

/// The answer to an extension is lost, and the store is away until long after the lease.
#[tokio::test(start_paused = true)]
async fn an_extension_without_an_answer_is_released_in_memory() {
    let memory = MemoryStore::new();
    let store = Troubled::new(memory.clone());
    let client = LockClient::builder().store(store.clone()).unwrap();
    let other = LockClient::builder().store(memory.peer()).unwrap();
    for kind in KINDS_AND_SEVERAL {
        let guard = take(&client, kind, kind, fixed(LEASE)).await.unwrap();
        store.of_renewals(Trouble::Unanswered);
        assert!(guard.extend(LONG).await.is_err());
        store.set(AWAY);
        drop(guard);
        sleep(OUTAGE).await;
        store.set(Trouble::None);
        is_free_soon(&other, kind).await;
    }
}

/// S-29: a majority has released, and a server that comes back long after still has the hold.
#[tokio::test(start_paused = true)]
async fn a_server_of_a_quorum_that_comes_back_late_frees_it() {
    let last = MemoryStore::new();
    let servers = [MemoryStore::new(), MemoryStore::new(), last.clone()].map(Troubled::new);
    let stores = servers.iter().map(|store| Arc::new(store.clone()) as Arc<dyn Store>);
    let quorum = LockClient::builder().quorum_of(stores, RestartGuard::Off).unwrap();
    let guard = quorum.mutex("q").lock().await.unwrap();
    let kept = 5 * LONG;
    guard.extend(kept).await.unwrap();
    let on_last = || last.holders("q").0.len();
    assert_eq!(on_last(), 1);
    servers[2].set(AWAY);
    guard.release().await.unwrap();
    sleep(2 * LONG).await;
    servers[2].set(Trouble::None);
    eventually(SOON, "the last server is released", async || on_last() == 0).await;
}
