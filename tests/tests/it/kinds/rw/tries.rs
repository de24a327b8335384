//! Readers who try at the same moment, alone and beside those who wait: one hold (S-27).

use crate::kinds::rw::*;

pub(crate) type Tried = Result<Option<LockGuard>, LockError>;

pub(crate) fn trying(client: &LockClient, name: &str) -> JoinHandle<Tried> {
    let lock = client.rw_lock(name);
    lock_tests::spawn(async move { lock.try_read().await })
}

/// The guards of all who have tried, and that they stand on one hold.
async fn one_hold(tried: Vec<JoinHandle<Tried>>) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for tried in tried {
        let tried = timeout(PROMPTLY, tried).await.expect("still trying").unwrap();
        guards.push(tried.unwrap().expect("no writer holds it"));
    }
    same_token(&guards);
    guards
}

pub(crate) fn same_token(guards: &[LockGuard]) {
    let tokens: Vec<FencingToken> = guards.iter().map(LockGuard::token).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]), "holds of their own: {tokens:?}");
}

/// A client behind a proxy that can make answers late, so that what is to meet does.
pub(crate) async fn far_world(command_timeout: Duration) -> (RedisServer, Proxy, LockClient) {
    let (server, proxy, client) = far_world_with(command_timeout).await;
    // The server knows the scripts afterwards.
    client.rw_lock("warm").read().await.unwrap().release().await.unwrap();
    (server, proxy, client)
}

/// How many commands the server runs for this, those within scripts included.
async fn cost(server: &RedisServer, what: impl Future<Output = ()>) -> u64 {
    server.reset_stats().await;
    what.await;
    let calls = server.command_calls().await;
    let ours = |name: &str| !name.starts_with("config") && name != "info";
    calls.iter().filter(|(name, _)| ours(name)).map(|(_, calls)| calls).sum()
}

/// S-27: fifty who try cost one hold, and so do as many of whom half would wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tries_share_one_hold() {
    let (server, client) = world().await;
    client.rw_lock("warm").try_read().await.unwrap().unwrap().release().await.unwrap();
    for round in 0..40 {
        server.reset_stats().await;
        let tries = if round % 2 == 0 { 50 } else { 25 };
        let waiters: Vec<_> = (tries..50).map(|_| reading(&client, "t")).collect();
        let mut guards = one_hold((0..tries).map(|_| trying(&client, "t")).collect()).await;
        guards.extend(all_got(waiters, PROMPTLY).await);
        same_token(&guards);
        assert_eq!(holds(&server, "t").await.len(), 1);
        release_all(guards).await;
        nothing_left(&server, "t").await;
        // To take it, and to give it back; and whether a writer waits, every 5 ms.
        let scripts = server.command_calls().await["evalsha"];
        assert!(scripts <= 15, "{scripts} scripts in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quick_readers_make_no_line() {
    let (server, proxy, client) = far_world(secs(2)).await;
    proxy.delay_replies(ms(40));
    let lock = client.rw_lock("t");
    let asked = Instant::now();
    let quick = (0..50).map(|_| {
        let lock = lock.clone();
        lock_tests::spawn(async move {
            drop(lock.try_read().await.unwrap().expect("no writer holds it"))
        })
    });
    joined(quick).await;
    assert!(asked.elapsed() < patience(ms(700)), "took {:?}", asked.elapsed());
    proxy.pass();
    nothing_left(&server, "t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_shared() {
    let (server, proxy, client) = far_world(secs(2)).await;
    let other = connect(&server).await;
    // More than it takes to have fifty futures ask.
    proxy.delay_replies(ms(50));
    for (writing, ours) in [(&other, false), (&client, true)] {
        let writer = writing.rw_lock("t").write().await.unwrap();
        let lock = client.rw_lock("t");
        let one = cost(&server, async {
            assert!(lock.try_read().await.unwrap().is_none());
        });
        let one = one.await;
        let all = cost(&server, async {
            for tried in join_all((0..50).map(|_| lock.try_read())).await {
                assert!(tried.unwrap().is_none());
            }
        });
        let all = all.await;
        assert!(all <= one * 3, "one costs {one} commands, fifty cost {all}");
        // Who writes asks for himself, and nobody else can.
        for inside in writer.run(join_all((0..3).map(|_| lock.try_read()))).await.unwrap() {
            assert_eq!(inside.unwrap().is_some(), ours);
        }
        writer.release().await.unwrap();
        nothing_left(&server, "t").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleeping_reader_is_not_waited_for() {
    let (server, client) = world().await;
    let other = connect(&server).await;
    let lock = client.rw_lock("t");
    let writer = other.rw_lock("t").write().await.unwrap();
    let sleeping = reading(&client, "t");
    listening(&server, "t", 1).await;
    for _ in 0..5 {
        let tried = timeout(at_once(), lock.try_read()).await.expect("waits for a sleeper");
        assert!(tried.unwrap().is_none());
    }
    // Gone without a word: the sleeping one does not know.
    server.client().del("t").await;
    let tried = timeout(at_once(), lock.try_read()).await.expect("waits for a sleeper");
    let tried = tried.unwrap().expect("no writer holds it");
    assert!(!sleeping.is_finished());
    sleeping.abort();
    assert!(writer.release().await.is_err());
    drop((sleeping.await, tried));
    nothing_left(&server, "t").await;
}

/// S-27: who wakes up while another tries, and the other way round, has the same hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_wakes_up_joins_who_tries() {
    let (server, proxy, client) = far_world(secs(2)).await;
    let other = connect(&server).await;
    for round in 0..20 {
        let writer = other.rw_lock("t").write().await.unwrap();
        let waiters: Vec<_> = (0..3).map(|_| reading(&client, "t")).collect();
        listening(&server, "t", 1).await;
        proxy.delay_replies(ms(round * 2));
        writer.release().await.unwrap();
        let mut guards = one_hold((0..10).map(|_| trying(&client, "t")).collect()).await;
        guards.extend(all_got(waiters, at_once()).await);
        same_token(&guards);
        assert_eq!(holds(&server, "t").await.len(), 1);
        proxy.pass();
        drop(guards);
        nothing_left(&server, "t").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_writer_goes_first() {
    let (server, client) = world().await;
    let other = connect(&server).await;
    let lock = client.rw_lock("t");
    let reader = lock.try_read().await.unwrap().expect("no writer holds it");
    let writer = writing(&other, "t");
    announced(&server, "t", 1).await;
    // Joining is free for as long as the last answer is fresh.
    soon!("all are refused", {
        let tried = join_all((0..20).map(|_| lock.try_read())).await;
        tried.into_iter().all(|tried| tried.unwrap().is_none())
    });
    reader.release().await.unwrap();
    got(writer, at_once()).await.release().await.unwrap();
    nothing_left(&server, "t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_refusal_is_not_shared() {
    let (server, proxy, client) = far_world(secs(2)).await;
    let writer = connect(&server).await.rw_lock("t").write().await.unwrap();
    proxy.delay_replies(ms(300));
    server.reset_stats().await;
    let early = trying(&client, "t");
    soon!("the server has refused", server.command_calls().await.contains_key("evalsha"));
    writer.release().await.unwrap();
    let late = trying(&client, "t").await.unwrap().unwrap();
    assert!(early.await.unwrap().unwrap().is_none(), "not refused, not what this is about");
    drop(late.expect("no writer holds it any more"));
    proxy.pass();
    nothing_left(&server, "t").await;
}
