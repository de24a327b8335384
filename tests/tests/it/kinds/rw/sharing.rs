//! Who may have the lock together with whom, and what sharing costs.

use crate::kinds::rw::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_readers_share_one_hold() {
    let (server, client) = world().await;
    for round in 0..20 {
        let waiters: Vec<_> = (0..50).map(|_| reading(&client, "r")).collect();
        let mut guards = all_got(waiters, PROMPTLY).await;
        let hash = server.client().hgetall("r").await;
        assert_eq!((hash.len(), hash["mode"].as_str()), (2, "read"), "round {round}: {hash:?}");
        if round == 0 {
            // The reader that took the hold leaves, too; one that joined it keeps it.
            guards.drain(..20);
            guards.drain(1..);
            assert_eq!(holds(&server, "r").await.len(), 1);
        }
        release_all(guards).await;
        nothing_left(&server, "r").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_readers_get_in_together() {
    let (server, client, other) = world_of_two().await;
    for _ in 0..5 {
        let writer = other.rw_lock("line").write().await.unwrap();
        let waiters: Vec<_> = (0..40).map(|_| reading(&client, "line")).collect();
        listening(&server, "line", 1).await;
        writer.release().await.unwrap();
        let released = Instant::now();
        let guards = all_got(waiters, PROMPTLY).await;
        let took = released.elapsed();
        assert!(took < at_once(), "the last of them came after {took:?}");
        assert_eq!(holds(&server, "line").await.len(), 1);
        drop(guards);
        nothing_left(&server, "line").await;
    }
}

/// S-10, S-27: a fixed lease ends when it was to end, a limit is its owner's: neither is shared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_with_other_terms_have_a_hold_of_their_own() {
    let (server, client) = world().await;
    let lock = client.rw_lock("terms");
    let lease = ms(600);
    let fixed = fixed(lease);
    let limited = watched(lease).max_hold(lease).wait(Wait::UpTo(PROMPTLY));
    let limited = lock.clone().with(limited).read().await.unwrap();
    let renewed = lock.clone().with(watched(lease)).read().await.unwrap();
    let fixed = lock.clone().with(fixed).read().await.unwrap();
    let again = lock.clone().with(watched(lease)).read().await.unwrap();
    assert_eq!(again.token(), renewed.token(), "equal terms share");
    assert_eq!(holds(&server, "terms").await.len(), 3);
    tokio::time::timeout(PROMPTLY, fixed.lost()).await.expect("a fixed lease was renewed");
    tokio::time::timeout(PROMPTLY, limited.lost()).await.expect("a limit was passed");
    sleep(lease * 2).await;
    assert!(!renewed.is_lost() && !again.is_lost(), "lost by another task's terms");
    drop((fixed, limited, again));
    renewed.release().await.unwrap();
    nothing_left(&server, "terms").await;
}

/// S-12, S-27: guards of a lost hold that no task has dropped yet keep no reader out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_hold_is_not_joined() {
    let (server, client) = world().await;
    let lock = client.rw_lock("lost").with(watched(ms(600)));
    let lost = lock.read().await.unwrap();
    server.client().cmd(&["FLUSHALL"]).await;
    tokio::time::timeout(PROMPTLY, lost.lost()).await.expect("the loss went unnoticed");
    let asked = Instant::now();
    let fresh = got(reading(&client, "lost"), PROMPTLY).await;
    assert!(asked.elapsed() < at_once(), "kept out by a lost hold for {:?}", asked.elapsed());
    assert!(fresh.token() > lost.token());
    // The clean-up after the lost one does not touch the new one.
    drop(lost);
    let writer = writing(&client, "lost");
    crate::kinds::rw::announced(&server, "lost", 1).await;
    assert!(!writer.is_finished());
    fresh.release().await.unwrap();
    got(writer, PROMPTLY).await.release().await.unwrap();
    nothing_left(&server, "lost").await;
}

/// S-27: many locks at once, so that requests of both sides go out in one script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_at_once() {
    let (server, client) = world().await;
    let both_sides = |n: u32| {
        let lock = client.rw_lock(format!("lock:{n}"));
        lock_tests::spawn(async move {
            for _ in 0..3 {
                lock.read().await?.release().await?;
                let writer = lock.write().await?;
                let reader = writer.run(lock.read()).await??;
                assert!(reader.token() > writer.token());
                writer.release().await?;
                reader.release().await?;
            }
            Ok::<_, LockError>(())
        })
    };
    for task in (0..200).map(both_sides).collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    let left = server.client().keys().await;
    assert!(left.iter().all(|key| key.starts_with("redisson_lock_token:")), "{left:?}");
    assert_eq!(left.len(), 200);
}

/// S-27, S-31: a hold that replicas are to know of is its owner's alone, whoever asks for as many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_with_replicas_have_a_hold_of_their_own() {
    let (server, client) = world().await;
    let _replica = RedisServer::builder().replica_of(server.port()).start().await;
    server.wait_for_replicas(1).await;
    let known = LockOptions::new().replicas(Replicas::new(1, PROMPTLY));
    let lock = client.rw_lock("replicas").with(known);
    let guards = [lock.read().await.unwrap(), lock.try_read().await.unwrap().unwrap()];
    assert_eq!(holds(&server, "replicas").await.len(), 2);
    release_all(guards).await;
    nothing_left(&server, "replicas").await;
}
