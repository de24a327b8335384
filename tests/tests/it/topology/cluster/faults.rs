//! Answers that are lost between a node and its client.

use super::kinds::until_heard;
use super::world::{End, PROMPTLY};
use crate::prelude::*;

/// A proxy in front of the first node, which announces it as its own address.
async fn behind_proxy(cluster: &RedisCluster) -> Proxy {
    let proxy = Proxy::start(cluster.node(0).port()).await;
    let port = proxy.port().to_string();
    cluster.node(0).client().cmd(&["CONFIG", "SET", "cluster-announce-port", &port]).await;
    // A client may learn of the node from any of them.
    for other in 1..3 {
        eventually(secs(20), "the others know", async || {
            let nodes: String = cluster.node(other).client().get(&["CLUSTER", "NODES"]).await;
            nodes.contains(&format!(":{port}@"))
        })
        .await;
    }
    proxy
}

/// A cluster whose first node is behind a proxy, a client, and a name that is at that node.
async fn world() -> (RedisCluster, Proxy, LockClient, String) {
    let cluster = RedisCluster::start().await;
    let proxy = behind_proxy(&cluster).await;
    let client = LockClient::builder().connect_cluster([cluster.node(1).url()]).await.unwrap();
    let name = cluster.names_at(0, 1).await.remove(0);
    (cluster, proxy, client, name)
}

// What may have run is not sent again: a latch that was counted down once is counted down once.
test_with!(an_unknown_outcome_is_not_repeated, world(), async |(_cluster, proxy, client, name)| {
    let latch = client.latch(&name);
    assert!(latch.try_set_count(5).await.unwrap());
    proxy.drop_next_reply_to("down");
    let LockError::Store(error) = latch.count_down().await.unwrap_err() else { panic!("no error") };
    assert_eq!(error.kind(), StoreErrorKind::OutcomeUnknown, "{error:?}");
    assert_eq!(proxy.replies_dropped(), 1);
    assert_eq!(latch.count().await.unwrap(), 4);
});

// The server says on its own account that a subscription is over. That is not taken for the answer to
// what is under way at the same node, of which there is always something here.
test_with!(answers_go_to_the_task_that_asked, world(), async |(cluster, proxy, client, name)| {
    let other = LockClient::builder().connect_cluster([cluster.node(1).url()]).await.unwrap();
    let busy = cluster.names_at(0, 10).await;
    let held = client.mutex(&name).lock().await.unwrap();
    let waiting = lock_tests::spawn(other.mutex(&name).lock());
    until_heard(&cluster, &name).await;
    proxy.delay_replies(ms(10));
    let over = AtomicBool::new(false);
    let ask = async |busy: &String| {
        while !over.load(Ordering::SeqCst) {
            let guard = other.mutex(busy).lock().await.unwrap();
            let seen = other.admin().inspect(busy).await.unwrap();
            assert_eq!(seen.last_token, Some(guard.token()), "another's answer");
            guard.release().await.unwrap();
        }
    };
    let moves = async {
        cluster.move_slot(cluster.slot(&name).await, 2, &[], async {}).await;
        until_heard(&cluster, &name).await;
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        over.store(true, Ordering::SeqCst);
    };
    // The first is the one that is held.
    tokio::join!(join_all(busy[1..].iter().map(ask)), moves);
});

/// S-9: a node that does not answer costs the holds on its slots, and no others: their answers are not kept
/// back until its own have come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_costs_only_its_own_holds() {
    let (cluster, proxy, client, there) = world().await;
    let lease = ms(1_500);
    let options = watched(lease);
    let elsewhere = cluster.names_at(1, 1).await.remove(0);
    let held = client.mutex(&there).with(options.clone()).lock().await.unwrap();
    let kept = client.mutex(&elsewhere).with(options).lock().await.unwrap();
    proxy.stall();
    held.lost().await;
    for _ in 0..2 {
        let before = End::of(&kept);
        let renewed = async || before.has_moved(&kept);
        eventually(PROMPTLY, "the other is renewed beside it", renewed).await;
    }
    assert!(!kept.is_lost());
    proxy.pass();
    kept.release().await.unwrap();
}

// S-21, S-22: a grant whose answer was lost is ours, or is given back; never is it held by nobody.
test_with!(a_lost_grant_is_found_again, world(), async |(cluster, proxy, client, name)| {
    // What undoes the first may be what loses its answer in place of the next, or be cut off with it.
    for _ in 0..20 {
        if proxy.replies_dropped() >= 4 {
            return;
        }
        // Of a grant and of a release, for either kind.
        for kind in ["mutex", "fair"] {
            proxy.drop_next_reply_to(&name);
            let guard = take(&client, kind, &name, LockOptions::default()).await.unwrap();
            proxy.drop_next_reply_to(&name);
            guard.release().await.unwrap();
            soon!("it is free", !cluster.node(0).client().exists(&name).await);
        }
    }
    panic!("hardly any answer was lost: {}", proxy.replies_dropped());
});
