//! Masters that die.

use super::kinds::until_heard;
use super::world::{End, PROMPTLY, client_with};
use crate::prelude::*;

/// More than a cluster takes to elect, on a busy machine.
pub(crate) const FAIL_OVER: Duration = secs(30);

async fn patient(cluster: &RedisCluster) -> LockClient {
    client_with(cluster, LockClient::builder().store_patience(FAIL_OVER)).await
}

async fn hold(client: &LockClient, name: &str) -> LockGuard {
    // A fail-over that takes as long as it is waited for does not end it.
    let lease = Lease::Watchdog(FAIL_OVER * 3 / 2);
    let options = LockOptions::new().lease(lease).replicas(Replicas::new(1, PROMPTLY));
    client.mutex(name).with(options).lock().await.unwrap()
}

// What the replica knew stays held and is waited for; new locks of those slots work once it has taken
// over, and those of other masters notice nothing.
test_with!(a_master_dies, RedisCluster::with_replicas(), async |cluster| {
    let (a, b) = (patient(&cluster).await, patient(&cluster).await);
    let dead = cluster.names_at(0, 3).await;
    let alive = [cluster.names_at(1, 2).await, cluster.names_at(2, 2).await].concat();
    let (held, elsewhere) = (hold(&a, &dead[0]).await, hold(&a, &alive[0]).await);
    let waiting = lock_tests::spawn(b.mutex(&dead[0]).lock());
    until_heard(&cluster, &dead[0]).await;

    cluster.node(0).kill();
    let taken_over = lock_tests::spawn({
        let (mutex, name) = (b.mutex(&dead[1]), dead[1].clone());
        async move {
            let guard = mutex.lock().await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            guard.release().await.unwrap();
        }
    });
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    while !taken_over.is_finished() {
        for name in &alive[1..] {
            let asked = Instant::now();
            let guard = b.mutex(name).lock().await.unwrap();
            guard.release().await.unwrap();
            slowest = slowest.max(asked.elapsed());
        }
        assert!(start.elapsed() < patience(FAIL_OVER), "no node has taken over");
        tokio::time::sleep(ms(5)).await;
    }
    taken_over.await.unwrap();
    let took = start.elapsed();
    // Held up until the replica has taken over, they would take as long as that; a busy machine slows both down.
    assert!(
        slowest < (took / 2).max(PROMPTLY / 5),
        "others were held up for {slowest:?} of {took:?}"
    );

    let before = End::of(&held);
    eventually(FAIL_OVER, "the hold is renewed at the new master", async || {
        before.has_moved(&held)
    })
    .await;
    assert!(!held.is_lost() && !elsewhere.is_lost());
    assert!(!waiting.is_finished());
    assert!(b.mutex(&dead[0]).try_lock().await.unwrap().is_none());
    until_heard(&cluster, &dead[0]).await;
    let released = Instant::now();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.elapsed() < patience(PROMPTLY), "{:?}", released.elapsed());
    elsewhere.release().await.unwrap();
});

/// What was sent to a master before it hung is granted by it when it goes on, if nobody has told it yet
/// that it was replaced. That does not count where somebody knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_grant_of_a_replaced_master_does_not_count() {
    let cluster = RedisCluster::with_replicas().await;
    // Nothing gives up waiting for an answer by itself.
    let builder = LockClient::builder().command_timeout(FAIL_OVER).store_patience(FAIL_OVER);
    let (late, prompt) = (client_with(&cluster, builder).await, patient(&cluster).await);
    let name = cluster.names_at(1, 1).await.remove(0);
    let beside = format!("{{{name}}}:beside");
    late.mutex(&name).lock().await.unwrap().release().await.unwrap();
    cluster.node(1).pause();
    let mut asked = lock_tests::spawn(late.mutex(&name).lock());
    let held = prompt.mutex(&name).lock().await.unwrap();
    eventually(FAIL_OVER, "it knows who has the slot", async || {
        timeout(PROMPTLY / 10, late.admin().inspect(&beside)).await.is_ok_and(|seen| seen.is_ok())
    })
    .await;
    cluster.node(1).resume();
    let granted = timeout(PROMPTLY / 2, &mut asked).await;
    assert!(granted.is_err(), "two have it: {granted:?}");
    assert!(!held.is_lost());
    held.release().await.unwrap();
    asked.await.unwrap().unwrap().release().await.unwrap();
}
