//! Each kind of lock, at whatever node it is.

use super::world::{PROMPTLY, client, shared};
use crate::prelude::*;

#[tokio::test]
async fn latches_open() {
    let cluster = shared().await;
    let (a, b) = (client(cluster).await, client(cluster).await);
    for name in ["latch:1", "latch:2", "{latch}:3", "latch:{4}"] {
        assert!(a.latch(name).try_set_count(2).await.unwrap());
        let waiting = lock_tests::spawn({
            let latch = b.latch(name);
            async move { latch.reached().await }
        });
        until_heard(cluster, name).await;
        assert_eq!(a.latch(name).count_down().await.unwrap(), 1);
        let start = Instant::now();
        assert_eq!(a.latch(name).count_down().await.unwrap(), 0);
        waiting.await.unwrap().unwrap();
        assert!(start.elapsed() < patience(PROMPTLY), "{:?}", start.elapsed());
    }
}

/// Waits until a waiter listens for that name.
pub(crate) async fn until_heard(cluster: &lock_tests::RedisCluster, name: &str) {
    let node = cluster.owner_of(name).await.client();
    soon!("a waiter listens", {
        let channels: Vec<String> = node.get(&["PUBSUB", "SHARDCHANNELS"]).await;
        channels.iter().any(|channel| channel.contains(name))
    });
}

/// S-9, S-10: two hundred holds, three renewals and more. A hold that has waited for half of its lease is late: on a busy machine
/// that must be longer than a pause of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_are_renewed_in_all_slots() {
    let cluster = shared().await;
    let client = client(cluster).await;
    let lease = secs(4);
    let options = watched(lease);
    let take = |n: usize| client.mutex(format!("kept:{n}")).with(options.clone()).lock();
    let guards: Vec<_> =
        join_all((0..200).map(take)).await.into_iter().collect::<Result<_, _>>().unwrap();
    let until = Instant::now() + 2 * lease;
    while Instant::now() < until {
        assert!(client.health().is_healthy(), "{:?}", client.health());
        tokio::time::sleep(ms(50)).await;
    }
    for guard in guards {
        assert!(!guard.is_lost(), "{:?}", guard.key());
        guard.release().await.unwrap();
    }
}
