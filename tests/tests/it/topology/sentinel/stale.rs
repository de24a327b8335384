//! A master that was replaced, does not know it, and would go on granting.

use super::world::{FAILOVER, NAME, World, wait_for_client};
use crate::prelude::*;

// It comes back while clients are connected to it, and grants to whoever asks; ours have left, although the sentinels do not let
// them hear of their events.
test_with!(a_master_that_is_back_is_not_asked, World::new(1), async |world| {
    for node in 0..3 {
        let client = world.sentinels.client(node);
        client.cmd(&["ACL", "SETUSER", "default", "-subscribe"]).await;
    }
    // One that has subscriptions, and one that has been idle and would not have noticed.
    let (busy, idle) = (world.client().await, world.client().await);
    let guard = busy.mutex("warm").lock().await.unwrap();
    drop(guard);
    world.sentinels.publish_every(secs(5)).await;
    world.master().pause();
    let promoted = world.promoted().await;
    wait_for_client(promoted).await;
    let both = async || promoted.command_calls().await["role"] >= 2;
    eventually(FAILOVER, "both are at the new master", both).await;
    world.master().resume();
    for number in 0..20 {
        let name = format!("after:{number}");
        let client = if number % 2 == 0 { &busy } else { &idle };
        let guard = client.mutex(&*name).lock().await.unwrap();
        assert!(promoted.client().exists(&name).await, "{name} was granted by the old master");
        assert!(!world.master().client().exists(&name).await, "{name} was asked of the old master");
        guard.release().await.unwrap();
    }
    // Otherwise nothing was tested.
    let info: String = world.master().client().get(&["INFO", "replication"]).await;
    assert!(info.contains("role:master"), "the old master has been told");
});

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn news_comes_by_events() {
    let mut waits = Vec::new();
    // On a busy machine one that hears of it may be late as well; eight that ask by chance are never early.
    while waits.len() < 3 {
        let world = World::new(1).await;
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(world.client().await);
        }
        world.sentinels.client(0).cmd(&["SENTINEL", "FAILOVER", NAME]).await;
        let promoted = world.promoted().await;
        let start = Instant::now();
        let all = async || promoted.command_calls().await.get("role") == Some(&8);
        eventually(FAILOVER, "all are at the new master", all).await;
        waits.push(start.elapsed());
        if start.elapsed() < ms(400) {
            return;
        }
    }
    panic!("all eight are there after {waits:?}");
}
