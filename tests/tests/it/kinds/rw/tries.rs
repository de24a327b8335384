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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_shared() {
    let (server, proxy, client) = far_world(secs(2)).await;
    let other = connect(&server).await;
    let lock = client.rw_lock("t");
    // More than it takes to have fifty futures ask.
    proxy.delay_replies(ms(50));
    for (writing, ours) in [(&other, false), (&client, true)] {
        let writer = writing.rw_lock("t").write().await.unwrap();
        server.reset_stats().await;
        for tried in join_all((0..50).map(|_| lock.try_read())).await {
            assert!(tried.unwrap().is_none());
        }
        let scripts = server.command_calls().await["evalsha"];
        assert!(scripts <= 3, "fifty cost {scripts} scripts");
        // Who writes asks for himself, and nobody else can.
        for inside in writer.run(join_all((0..3).map(|_| lock.try_read()))).await.unwrap() {
            assert_eq!(inside.unwrap().is_some(), ours);
        }
        writer.release().await.unwrap();
        nothing_left(&server, "t").await;
    }
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
