//! Fault 29: the server's time of day jumps a minute ahead, so every lease ends at once.
//!
//! - Promised: no lock can prevent that two then hold it; the holder learns of it with its next renewal, a third of the lease
//!   later; fencing tokens still grow; every lock within 2 s.
//! - Seen: each of the holders that were there has lost its lock after 2 s, with a lease of 6 s.

use lock_tests::preload::WallClock;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let clock = WallClock::new();
    let mut drill = Drill::on(RedisServer::builder().envs(&clock.envs())).await;
    let jump = async |drill: &mut Drill| {
        // So long that the store, and not the deadline, tells of the loss on a busy machine.
        let held = hold_each(&drill.near.client, secs(6)).await;
        drill.loses(async { clock.shift(60) }).await;
        let jumped = Instant::now();
        for guard in &held {
            timeout(SOON, guard.lost()).await.expect("the holder learns of it");
        }
        eprintln!("all lost after {:?}", jumped.elapsed());
        for guard in held {
            let error = guard.release().await.unwrap_err();
            let cause = matches!(error, LockError::Lost { cause: LossCause::NotOwner, .. });
            assert!(cause, "{error:?}");
        }
    };
    drill.fault(May::Delay, jump).await;
    drill.end(secs(2)).await;
}
