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
