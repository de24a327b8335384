//! Fault 30: the server's time of day jumps ten minutes behind, so every lease lasts ten minutes longer there.
//!
//! - Promised: nothing happens to locks whose holders live: they renew and release, and tokens still grow. A lock whose holder is
//!   dead stays held for ten minutes more: a waiter is told how long, and `force_release` frees it.
//! - Seen: no loss; waiters are told of 600 s.

use futures_util::future::join_all;
use lock_tests::preload::WallClock;

use crate::prelude::*;

const BACK: Duration = secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_dead_keep_their_locks() {
    let clock = WallClock::new();
    let mut drill = Drill::on(RedisServer::builder().envs(&clock.envs())).await;
    let network = Proxy::start(drill.server.port()).await;
    let doomed = LockClient::connect(&network.url()).await.unwrap();
    let mut dead = hold_each(&doomed, LEASE).await;
    // There are two.
    let permits = own_name(Job::Permits);
    dead.push(Job::Permits.acquire(&doomed, &permits, watched(LEASE)).await.unwrap());
    network.black_hole();
    drop(dead);
    clock.shift(-BACK.as_secs().cast_signed());
    drill.all_work().await;
    let client = &quiet_client(&drill).await;
    let waits = Job::ALL.map(|job| async move {
        let options = watched(LEASE).wait(LEASE);
        let other = if job == Job::Read { Job::Write } else { job };
        let error = other.acquire(client, &own_name(job), options).await.unwrap_err();
        let left = error.holder_remaining().unwrap_or_default();
        assert!(left > BACK - SOON, "{job:?} is held for {left:?}: {error:?}");
    });
    join_all(waits).await;
    for job in Job::ALL {
        let name = own_name(job);
        let parts = [format!("{{{name}}}one"), format!("{{{name}}}two")];
        let names = if job == Job::Pair { parts.to_vec() } else { vec![name] };
        for name in names {
            assert!(client.admin().force_release(name).await.unwrap(), "{job:?} was held");
        }
    }
    release_each(hold_each(client, LEASE * 10).await).await;
    client.shutdown(SOON).await;
    drill.end(Duration::ZERO).await;
}
