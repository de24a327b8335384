//! An answer to a renewal may come as late as the deadline (S-9).

use crate::faults::slow_store::*;
use crate::support::quorum::{proxies, servers, through};

const LEASE: Duration = secs(1);

/// Holds of every kind on one server, and locks on several servers, one of which hangs, for ten leases. Round trips take so many
/// percent of a third of the lease.
async fn holds_stay(percent: u32) {
    let servers = servers(3).await;
    let proxies = proxies(&servers).await;
    let builder = LockClient::builder().command_timeout(LEASE * 2);
    let quorum = through(builder.clone().server_timeout(LEASE), &proxies).await;
    let one = builder.clone().connect(&proxies[0].url()).await.unwrap();
    let two = builder.connect(&proxies[1].url()).await.unwrap();
    let joint = MultiLock::of([one.mutex("a").into(), two.fair_mutex("b").into()]);
    let mut guards = vec![
        quorum.mutex("q").with(watched(LEASE)).lock().await.unwrap(),
        joint.with(watched(LEASE)).lock().await.unwrap(),
        one.multi_lock(["m1", "m2"]).with(watched(LEASE)).lock().await.unwrap(),
    ];
    for (kind, _) in KINDS {
        guards.push(take_named(&one, kind, watched(LEASE)).await.unwrap());
    }
    proxies[..2].iter().for_each(|proxy| proxy.delay(LEASE / 3 * percent / 100 / 2));
    // One server out of three that answers at all times too late is not missed.
    proxies[2].stall();
    let start = Instant::now();
    while start.elapsed() < LEASE * 10 {
        for guard in &guards {
            assert!(!guard.is_lost(), "{:?} is lost after {:?}", guard.key(), start.elapsed());
        }
        sleep(LEASE / 10).await;
    }
    proxies.iter().for_each(Proxy::pass);
    release_all(guards).await;
}

/// S-9, S-28, S-29: round trips of 40 % and of 90 % of a third of the lease cost no hold, of whatever kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_survive_slow_answers() {
    tokio::join!(holds_stay(40), holds_stay(90));
}

// S-9, S-28: of two servers one hangs, and the other says that the hold is none: that is not kept back
// until the first answers or the deadline has passed.
test_with!(a_server_that_hangs_hides_no_loss, far_world_with(SOON), async |(
    _one,
    proxy,
    first,
)| {
    let (two, _pass, second) = far_world_with(SOON).await;
    let joint = MultiLock::of([first.mutex("a").into(), second.mutex("b").into()]);
    let lease = LEASE * 4;
    let guard = joint.with(watched(lease)).lock().await.unwrap();
    let start = Instant::now();
    proxy.stall();
    assert!(two.client().del("b").await);
    let lost = guard.lost().await;
    let cause = LossCause::NotOwner;
    assert!(matches!(lost, LockError::Lost { cause: found, .. } if found == cause), "{lost:?}");
    assert!(start.elapsed() < patience(lease * 6 / 10), "after {:?}", start.elapsed());
    proxy.pass();
});

/// A renewal without an answer makes its connection doubtful after a tenth of the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_doubts_its_connection_soon() {
    let (_server, proxy, client) = far_world_with(ms(1_000)).await;
    let guard = client.mutex("short").with(watched(secs(5))).lock().await.unwrap();
    let (start, accepted) = (Instant::now(), proxy.accepted());
    proxy.black_hole();
    // A third of the lease, a tenth of it, and the second that a PING has.
    let anew = async || proxy.accepted() > accepted;
    eventually(SOON, "a new connection", anew).await;
    assert!(start.elapsed() < patience(ms(4_600)), "{:?}", start.elapsed());
    proxy.pass();
    drop(guard);
}
