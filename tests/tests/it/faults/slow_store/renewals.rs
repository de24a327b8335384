//! An answer to a renewal may come as late as the deadline (S-9).

use crate::faults::slow_store::*;

const LEASE: Duration = secs(1);

/// Sleeps for so many leases, and fails as soon as one of the holds is lost.
async fn stay(guards: &[(String, LockGuard)], lease: Duration, leases: u32, proxy: impl Fn(u32)) {
    let start = Instant::now();
    for tenth in 0..leases * 10 {
        proxy(tenth);
        sleep((start + lease / 10 * tenth).saturating_duration_since(Instant::now())).await;
        for (name, guard) in guards {
            assert!(!guard.is_lost(), "{name} is lost after {:?}", start.elapsed());
        }
    }
}

async fn released(guards: impl IntoIterator<Item = (String, LockGuard)>) {
    for (name, guard) in guards {
        assert!(guard.release().await.is_ok(), "{name}");
    }
}

/// One hold of each kind, and one of several names.
async fn one_of_each(client: &LockClient, lease: Duration) -> Vec<(String, LockGuard)> {
    let mut guards = Vec::new();
    for (kind, _) in KINDS {
        guards.push((kind.to_owned(), take(client, kind, kind, watched(lease)).await.unwrap()));
    }
    let several = client.multi_lock(["m1", "m2"]).with(watched(lease));
    guards.push(("several".to_owned(), several.lock().await.unwrap()));
    guards
}

/// The round trip in percent of a third of the lease.
fn delay(percent: u32) -> Duration {
    LEASE / 3 * percent / 100 / 2
}

async fn every_kind_stays(percent: u32) {
    let (_server, proxy, client) = far_world_with(LEASE * 2).await;
    let guards = one_of_each(&client, LEASE).await;
    proxy.delay(delay(percent));
    stay(&guards, LEASE, 20, |_| {}).await;
    proxy.pass();
    released(guards).await;
}

/// S-9: round trips of 40 % and of 90 % of a third of the lease cost no hold, of whatever kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_every_kind_survive_slow_answers() {
    tokio::join!(every_kind_stays(40), every_kind_stays(90));
}

/// A client of three servers behind proxies, and one of two at once.
async fn compositions_stay(percent: u32) {
    let servers = join_all((0..3).map(|_| RedisServer::start())).await;
    let proxies = join_all(servers.iter().map(|server| Proxy::start(server.port()))).await;
    let builder = LockClient::builder().command_timeout(LEASE * 2);
    let quorum = builder.clone().server_timeout(LEASE);
    let quorum =
        quorum.connect_quorum(proxies.iter().map(Proxy::url), RestartGuard::Off).await.unwrap();
    let one = builder.clone().connect(&proxies[0].url()).await.unwrap();
    let two = builder.connect(&proxies[1].url()).await.unwrap();
    let joint = MultiLock::of([one.mutex("a").into(), two.fair_mutex("b").into()]);
    let guards = [
        ("quorum".to_owned(), quorum.mutex("q").with(watched(LEASE)).lock().await.unwrap()),
        ("joint".to_owned(), joint.with(watched(LEASE)).lock().await.unwrap()),
    ];
    // One server out of three that answers at all times too late is not missed.
    proxies[..2].iter().for_each(|proxy| proxy.delay(delay(percent)));
    proxies[2].stall();
    stay(&guards, LEASE, 10, |_| {}).await;
    proxies.iter().for_each(Proxy::pass);
    released(guards).await;
}

/// S-9, S-28, S-29: the same for locks on several servers, one of which hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_on_several_servers_survive_slow_answers() {
    tokio::join!(compositions_stay(40), compositions_stay(90));
}

/// S-9, S-28: of two servers one hangs, and the other says that the hold is none: that is not kept back
/// until the first answers or the deadline has passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_hides_no_loss() {
    let (_one, proxy, first) = far_world_with(SOON).await;
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_survive_lost_answers_between_slow_ones() {
    let (_server, proxy, client) = far_world_with(LEASE * 2).await;
    // Connecting anew takes several round trips.
    let lease = LEASE * 2;
    let guards = one_of_each(&client, lease).await;
    proxy.delay(delay(20));
    stay(&guards, lease, 10, |tenth| {
        if tenth % 20 == 0 {
            // Any name of the batch.
            proxy.drop_next_reply_to("semaphore");
        }
    })
    .await;
    assert!(proxy.replies_dropped() >= 3, "{} answers were lost", proxy.replies_dropped());
    proxy.pass();
    released(guards).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_a_connection_that_dies() {
    let (server, proxy, client) = far_world_with(ms(1_000)).await;
    let lease = ms(9_000);
    let guard = client.mutex("kept").with(watched(lease)).lock().await.unwrap();
    let accepted = proxy.accepted();
    proxy.black_hole();
    lock_tests::eventually(lease, "a new connection", async || proxy.accepted() > accepted).await;
    proxy.pass();
    sleep(lease).await;
    assert!(!guard.is_lost());
    assert!(server.client().exists("kept").await);
    guard.release().await.unwrap();
}

/// A renewal without an answer makes its connection doubtful after a tenth of the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_doubts_its_connection_soon() {
    let (_server, proxy, client) = far_world_with(ms(1_000)).await;
    let guard = client.mutex("short").with(watched(secs(5))).lock().await.unwrap();
    let (start, accepted) = (Instant::now(), proxy.accepted());
    proxy.black_hole();
    // A third of the lease, a tenth of it, and the second that a PING has.
    let anew = async || proxy.accepted() > accepted;
    lock_tests::eventually(SOON, "a new connection", anew).await;
    assert!(start.elapsed() < patience(ms(4_600)), "{:?}", start.elapsed());
    proxy.pass();
    drop(guard);
}
