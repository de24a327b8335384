//! Names that are used once and never again leave nothing behind, here or in the store.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use lock_runtime::LockClient;
use lock_runtime::store::MemoryStore;
use tokio::time::{advance, sleep};

use super::{alone, live_bytes};

const SOON: Duration = Duration::from_secs(10);

/// Takes a lock and gives it back.
async fn visit_alone(client: &LockClient, name: &str) {
    client.mutex(name).lock().await.unwrap().release().await.unwrap();
}

/// A waiter in line here, and somebody who listens elsewhere.
async fn contended(client: &LockClient, other: &LockClient, name: &str) {
    let guard = client.mutex(name).lock().await.unwrap();
    let release = async {
        // A round trip or two, so that the other listens; and if it is too late, no harm is done.
        sleep(Duration::from_millis(10)).await;
        guard.release().await.unwrap();
    };
    tokio::join!(visit_alone(client, name), visit_alone(other, name), release);
}

/// What a name costs for as long as its lock is held, in bytes: the measure for one that is forgotten.
///
/// The most of three rounds, because what an earlier test left may still be freed meanwhile.
async fn held_name(client: &LockClient) -> usize {
    const NAMES: usize = 1_000;
    let mut most = 0;
    for _ in 0..3 {
        let before = live_bytes();
        let mut held = Vec::new();
        for number in 0..NAMES {
            held.push(client.mutex(format!("held:{number}")).lock().await.unwrap());
        }
        most = most.max(live_bytes().saturating_sub(before) / NAMES);
        for guard in held {
            guard.release().await.unwrap();
        }
    }
    most
}

/// A day later the counters are forgotten as well.
#[tokio::test(start_paused = true)]
async fn names_in_memory_leave_nothing() {
    let _alone = alone().await;
    const ROUND: usize = 2_000;
    let store = MemoryStore::new();
    let client = LockClient::builder().store(store.clone()).unwrap();
    let other = LockClient::builder().store(store.peer()).unwrap();
    // First, while nothing lingers.
    let held = held_name(&client).await;
    let round = async |round: usize| {
        let names = (0..ROUND).map(|number| format!("once:{round}:{number}"));
        let (client, other, store) = (&client, &other, &store);
        let visits = stream::iter(names).for_each_concurrent(16, |name| async move {
            contended(client, other, &name).await;
            assert_eq!(store.holders(&name).0, []);
        });
        visits.await;
        advance(Duration::from_secs(25 * 60 * 60)).await;
        live_bytes()
    };
    for number in 0..4 {
        round(number).await;
    }
    let before = round(4).await;
    for number in 5..14 {
        round(number).await;
    }
    let after = round(14).await;
    let kept = after.saturating_sub(before) / (10 * ROUND);
    println!("in memory, a name leaves {kept} bytes; held, it takes {held}");
    assert!(kept < held / 20, "a name leaves {kept} bytes; held, it takes {held}");
    for client in [client, other] {
        assert!(client.shutdown(SOON).await.is_clean());
    }
}
