//! What a store that comes and goes does to holds, waiters and the connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::prelude::*;

/// S-12: a hold that was lost is not reported as released because the first attempt to release it
/// was not even sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_was_not_sent_explains_nothing() {
    let timeout = secs(1);
    let (server, proxy, client) = far_world_with(timeout).await;
    let other = connect(&server).await;
    // Connected shortly before an attempt's time is over, a release is sent twice, and either may be the one that ran. The
    // server may have heard of one alone: the other was on its way when its connection was given up.
    let mut rounds = Vec::new();
    for _ in 0..10 {
        let guard = client.mutex("k").lock().await.unwrap();
        // Once this end knows that there is no connection, a release is not sent at all.
        cut_off(&proxy, &client).await;
        server.client().cmd(&["FLUSHALL"]).await;
        let successor = other.mutex("k").lock().await.unwrap();
        let release = lock_tests::spawn(guard.release());
        // The first attempt has found no connection by then.
        sleep(timeout + ms(100)).await;
        let raw = server.client();
        raw.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
        raw.cmd(&["SLOWLOG", "RESET"]).await;
        proxy.pass();
        let outcome = tokio::time::timeout(SOON, release).await.expect("hung").unwrap();
        let commands = format!("{:?}", raw.cmd(&["SLOWLOG", "GET", "-1"]).await);
        let sent = commands.matches("redisson_lock__channel:{k}").count();
        assert!(!successor.is_lost());
        successor.release().await.unwrap();
        if sent == 1 && matches!(outcome, Err(LockError::Lost { .. })) {
            return;
        }
        rounds.push((sent, outcome));
    }
    panic!("no release that was sent once found the lock lost: {rounds:?}");
}

/// S-21: an acquire that takes effect late, after the hold that followed it was given back by a
/// drop, is undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_acquire_is_undone_after_a_drop() {
    let (server, proxy, client) = far_world_with(ms(300)).await;
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    // Sent twice: once now, and once as if a dead connection delivered it late.
    proxy.drop_next_reply_to("tardy");
    let guard = timeout(SOON, client.mutex("tardy").lock()).await.expect("hung").unwrap();
    let owner = server.client().hgetall("tardy").await.into_keys().next().expect("held");
    drop(guard);
    let raw = server.client();
    soon!("it is free", !raw.exists("tardy").await);
    raw.cmd(&["HSET", "tardy", &owner, "1"]).await;
    raw.cmd(&["PEXPIRE", "tardy", "30000"]).await;
    eventually(ms(2_000), "the late one is undone", async || !raw.exists("tardy").await).await;
}

/// A black hole is replaced by a new connection however many subscriptions have gone stale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_subscriptions_do_not_delay_a_reconnect() {
    let (server, proxy, client) = far_world().await;
    let holder = connect(&server).await;
    let brief = waits(ms(20));
    for number in 0..30 {
        let name = format!("stale:{number}");
        let _held = holder.mutex(&name).lock().await.unwrap();
        client.mutex(&name).with(brief.clone()).lock().await.unwrap_err();
    }
    let guard = client.mutex("kept").with(watched(secs(12))).lock().await.unwrap();
    let accepted = proxy.accepted();
    proxy.black_hole();
    sleep(ms(2_500)).await;
    eventually(ms(5_000), "it connects anew", async || proxy.accepted() > accepted).await;
    proxy.pass();
    eventually(ms(8_000), "it works again", async || client.mutex("x").try_lock().await.is_ok())
        .await;
    assert!(!guard.is_lost(), "the outage was shorter than the lease");
    guard.release().await.unwrap();
}

/// However long it takes to subscribe all channels again, the connection lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_subscriptions_over_a_slow_network_are_restored() {
    const CHANNELS: usize = 3_000;
    let (server, proxy) = proxied().await;
    let store = RedisStore::connect(&proxy.url()).await.unwrap();
    let targets = (0..CHANNELS).map(|n| Target::mutex(LockKey::new(format!("s:{n}")).unwrap()));
    let targets: Vec<_> = targets.collect();
    let _subscribed = join_all(targets.iter().map(|it| store.subscribe(it, secs(10)))).await;
    proxy.delay(ms(100));
    let accepted = proxy.accepted();
    proxy.reset_all();
    let restored = async || {
        let channels: Vec<String> = server.client().get(&["PUBSUB", "CHANNELS"]).await;
        channels.len() == CHANNELS
    };
    eventually(secs(20), "all channels are subscribed again", restored).await;
    sleep(secs(1)).await;
    assert_eq!(proxy.accepted(), accepted + 1);
}

// A connection that ends before it has been used is none.
test_with!(
    a_connection_that_breaks_at_once_fails_the_start,
    RedisServer::start(),
    async |server| {
        let breaking = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", breaking.local_addr().unwrap());
        let port = server.port();
        let serving = lock_tests::spawn(async move {
            loop {
                let (mut client, _) = breaking.accept().await.unwrap();
                let mut behind = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let (mut request, mut reply) = ([0; 4096], [0; 4096]);
                loop {
                    tokio::select! {
                        read = client.read(&mut request) => {
                            let request = &request[..read.unwrap_or(0)];
                            if request.is_empty() || request.windows(7).any(|at| at == b"SETNAME") {
                                break;
                            }
                            behind.write_all(request).await.unwrap();
                        }
                        read = behind.read(&mut reply) => {
                            client.write_all(&reply[..read.unwrap()]).await.unwrap();
                        }
                    }
                }
            }
        });
        let error = RedisStore::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        serving.abort();
    }
);

// S-20: a shutdown with an acquire under way waits for its end and leaves nothing.
test_with!(shutdown_waits_for_what_is_under_way, far_world(), async |(server, proxy, client)| {
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    proxy.delay_replies(ms(300));
    let mutex = client.mutex("under-way");
    let acquire = lock_tests::spawn(async move { mutex.lock().await.map(drop) });
    let raw = server.client();
    soon!("it was granted", raw.exists("under-way").await);
    assert!(client.shutdown(SOON).await.is_clean());
    assert!(!raw.exists("under-way").await, "called clean, and left a lock");
    assert!(matches!(acquire.await.unwrap(), Err(LockError::Closed)));
});

// A shutdown waits for a release that its caller is still waiting for: cut off, it would leave the lock
// until its lease is over, and the shutdown would call that clean.
test_with!(a_shutdown_waits_for_a_release_under_way, world(), async |(server, client)| {
    let guard = client.mutex("order:42").lock().await.unwrap();
    server.pause();
    let mut release = std::pin::pin!(guard.release());
    assert!(timeout(ms(50), &mut release).await.is_err());
    let mut shutdown = std::pin::pin!(client.shutdown(SOON));
    assert!(timeout(ms(300), &mut shutdown).await.is_err(), "too early");
    server.resume();
    let (released, left) = tokio::join!(release, shutdown);
    released.unwrap();
    assert!(left.is_clean(), "{left:?}");
    assert!(!server.client().exists("order:42").await);
});
