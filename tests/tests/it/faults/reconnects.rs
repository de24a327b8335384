//! How often a client connects again: seldom where connections do not live, soon where the server comes back.

use crate::prelude::*;

/// A store that asks for a lock for ever, whatever it is answered.
async fn keeps_asking(url: String) -> JoinHandle<()> {
    let store = RedisStore::connect(&url).await.unwrap();
    lock_tests::spawn(async move {
        let request = AcquireRequest::new(
            Target::mutex(LockKey::new("wanted").unwrap()),
            OwnerId::new(&client_id(), 1, 1),
            SOON,
            SOON,
        );
        loop {
            let _ = store.acquire(request.clone()).await;
            sleep(ms(20)).await;
        }
    })
}

/// How many connections are accepted in each tenth of a second, for so many of them.
async fn accepted_by_tenths(proxy: &Proxy, tenths: u32) -> Vec<usize> {
    let (start, mut before) = (Instant::now(), proxy.accepted());
    let mut counts = Vec::new();
    for tenth in 1..=tenths {
        tokio::time::sleep_until(start + tenth * ms(100)).await;
        let now = proxy.accepted();
        counts.push(now - before);
        before = now;
    }
    counts
}

/// What stands between takes connections and closes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closing_proxy_is_connected_to_once_a_second_at_most() {
    let (_server, proxy) = proxied().await;
    let asking = keeps_asking(proxy.url()).await;
    let closing = async {
        loop {
            proxy.reset_all();
            sleep(ms(10)).await;
        }
    };
    let counting = async {
        soon!("ten connections have failed", proxy.accepted() > 10);
        accepted_by_tenths(&proxy, 50).await.into_iter().sum::<usize>()
    };
    let connections = tokio::select! {
        never = closing => never,
        connections = counting => connections,
    };
    assert!(connections <= 6, "{connections} connections in 5 s");
    asking.abort();
}

// Once a connection has lived, it is replaced at once, whatever came before.
test_with!(a_connection_that_has_lived_ends_the_pauses, proxied(), async |(server, proxy)| {
    let asking = keeps_asking(proxy.url()).await;
    server.client().cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    soon!("ten connections have failed", proxy.accepted() > 10);
    server.client().cmd(&["REPLICAOF", "NO", "ONE"]).await;
    let locked = async || server.client().exists("wanted").await;
    eventually(SOON, "it works again", locked).await;
    // As long as a connection has to last.
    sleep(secs(3)).await;
    let start = Instant::now();
    proxy.reset_all();
    server.client().del("wanted").await;
    eventually(SOON, "it is acquired again", locked).await;
    assert!(start.elapsed() < patience(ms(800)), "{:?}", start.elapsed());
    asking.abort();
});

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_spreads() {
    const CLIENTS: usize = 60;
    let (server, proxy) = proxied().await;
    let fleet = join_all((0..CLIENTS).map(|_| keeps_asking(proxy.url()))).await;
    server.client().cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let failed = async || proxy.accepted() > 11 * CLIENTS;
    eventually(3 * SOON, "ten connections of each have failed", failed).await;
    let tenths = accepted_by_tenths(&proxy, 40).await;
    let all: usize = tenths.iter().sum();
    assert!(all <= 5 * CLIENTS, "{all} connections in 4 s");
    // Clients in step would all come in one tenth; a busy machine may put a few tenths together.
    assert!(tenths.iter().all(|count| *count < CLIENTS / 2), "in step: {tenths:?}");
    fleet.iter().for_each(JoinHandle::abort);
}

test_with!(the_slowest_client_is_back_in_half_a_second, RedisServer::start(), async |server| {
    let client =
        || async { LockClient::builder().store_patience(SOON).connect(&server.url()).await };
    let clients: Vec<_> =
        join_all((0..16).map(|_| client())).await.into_iter().map(Result::unwrap).collect();
    server.kill();
    let locks = clients.iter().enumerate().map(|(number, client)| {
        let mutex = client.mutex(format!("first:{number}"));
        lock_tests::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            (Instant::now(), guard)
        })
    });
    let locks: Vec<_> = locks.collect();
    // All pauses are as long as they get after 0.8 s; ones that could get longer would be so by then.
    sleep(ms(2_000)).await;
    server.restart().await;
    let answers = Instant::now();
    let granted = join_all(locks).await.into_iter().map(|granted| granted.unwrap().0);
    let slowest = granted.max().unwrap().saturating_duration_since(answers);
    assert!(slowest < patience(ms(500)), "{slowest:?} after the server answers again");
});
