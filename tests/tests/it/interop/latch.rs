//! `RCountDownLatch` beside ours (S-30).

use crate::interop::java::Asked;
use crate::interop::world::*;

const CHANNEL: &str = "redisson_countdownlatch__channel__{l}";

/// One that waits on each side, once both listen.
async fn both_wait(world: &mut World) -> (JoinHandle<Result<(), LockError>>, Asked) {
    let latch = world.client.latch("l");
    let ours = lock_tests::spawn(async move { latch.reached().await });
    let theirs = world.java.begin("waits", "await latch l 60000");
    world.server.wait_for_subscribers(CHANNEL, 2).await;
    assert!(!ours.is_finished() && world.java.is_busy(&theirs).await);
    (ours, theirs)
}

async fn both_go_on(world: &mut World, (ours, theirs): (JoinHandle<Result<(), LockError>>, Asked)) {
    timeout(AT_ONCE, ours).await.expect("not told").unwrap().unwrap();
    assert_eq!(world.java.end(theirs, AT_ONCE).await, "true");
}

// S-30: whoever set it, both count it down, and the last opens it for both.
interop!(both_count_down_and_wait, async |mut world| {
    let latch = world.client.latch("l");
    for (java_sets, java_is_last) in [(true, true), (true, false), (false, true), (false, false)] {
        if java_sets {
            assert_eq!(world.java.ask("t", "set latch l 3").await, "true");
            assert!(!latch.try_set_count(2).await.unwrap());
        } else {
            assert!(latch.try_set_count(3).await.unwrap());
            assert_eq!(world.java.ask("t", "set latch l 2").await, "false");
        }
        let waiting = both_wait(&mut world).await;
        assert_eq!(latch.count_down().await.unwrap(), 2);
        assert_eq!(world.java.ask("t", "count latch l").await, "2");
        world.java.ask("t", "down latch l").await;
        assert_eq!(latch.count().await.unwrap(), 1);
        assert!(!waiting.0.is_finished() && world.java.is_busy(&waiting.1).await);
        if java_is_last {
            world.java.ask("t", "down latch l").await;
        } else {
            assert_eq!(latch.count_down().await.unwrap(), 0);
        }
        both_go_on(&mut world, waiting).await;
        assert_eq!(world.java.ask("t", "count latch l").await, "0");
        assert!(!world.server.client().exists("l").await);
    }
});

// S-30: removed by us it is open for both. Redisson's own `delete` tells its waiters a message on
// which they stay; ours look, and go on.
interop!(removing_it_opens_it, async |mut world| {
    let latch = world.client.latch("l");
    world.java.ask("t", "set latch l 1").await;
    let waiting = both_wait(&mut world).await;
    assert!(latch.remove().await.unwrap());
    both_go_on(&mut world, waiting).await;

    assert!(latch.try_set_count(1).await.unwrap());
    let ours = lock_tests::spawn(async move { latch.reached().await });
    world.server.wait_for_subscribers(CHANNEL, 1).await;
    assert_eq!(world.java.ask("t", "delete latch l").await, "true");
    timeout(AT_ONCE, ours).await.expect("did not look").unwrap().unwrap();
});
