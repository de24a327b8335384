//! Answers that arrive on a connection after it has been given up: none of them counts, however the
//! connection came to its end (S-8, S-21).
//!
//! The address stays and the server behind it changes, as where a load balancer or a name leads to whichever is
//! the master. What the old server grants late, the new one knows nothing of.

use crate::prelude::*;

/// How long an answer takes that is to be late.
const LATE: Duration = ms(600);

struct World {
    old: RedisServer,
    new: RedisServer,
    proxy: Proxy,
}

impl World {
    async fn new() -> Self {
        let (old, new) = tokio::join!(RedisServer::start(), RedisServer::start());
        let proxy = Proxy::start(old.port()).await;
        Self { old, new, proxy }
    }

    /// A client of which no call gives up by itself.
    async fn client(&self) -> LockClient {
        let builder = LockClient::builder().command_timeout(SOON).store_patience(SOON * 2);
        let client = builder.connect(&self.proxy.url()).await.unwrap();
        client.mutex("warm").lock().await.unwrap().release().await.unwrap();
        client
    }
}

fn options() -> LockOptions {
    watched(SOON * 2)
}

/// The server is silent, a short call finds that out, and the sign of life that is asked for then
/// does not come. Calls that would wait for longer are asked again at once, of the new server.
async fn after_a_silent_ping(names: Vec<(&'static str, String)>) {
    let world = World::new().await;
    let client = world.client().await;
    world.old.pause();
    let connections = world.proxy.accepted();
    let takes = names.iter().cloned().map(|(kind, name)| {
        let client = client.clone();
        lock_tests::spawn(async move { take(&client, kind, &name, options()).await })
    });
    let takes: Vec<_> = takes.collect();
    world.proxy.retarget(world.new.port());
    client.mutex("short").with(waits(ms(50))).lock().await.unwrap_err();
    let anew = async || world.proxy.accepted() > connections;
    eventually(SOON / 2, "the silent connection is given up", anew).await;
    world.old.resume();
    for ((_, name), taken) in names.iter().zip(takes) {
        let guard = timeout(SOON / 2, taken).await.expect("waits for the old one").unwrap();
        assert!(world.new.client().exists(name).await, "{name}: granted by the old server");
        guard.unwrap().release().await.unwrap();
    }
}

/// Each kind, and many requests in few scripts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_silent_ping_of_each_kind_and_in_batches() {
    let many = (0..100).map(|number| ("mutex", format!("many:{number}")));
    after_a_silent_ping(KINDS.map(|(kind, _)| (kind, kind.to_owned())).into()).await;
    after_a_silent_ping(many.collect()).await;
}

// The server says that it is a replica by now, and a grant of it is on its way behind that.
test_with!(after_readonly, World::new(), async |world| {
    let (client, old) = (world.client().await, world.old.client());
    old.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    world.proxy.retarget(world.new.port());
    world.proxy.delay_replies(LATE);
    let refused = lock_tests::spawn(client.mutex("refused").with(options()).lock());
    soon!("it has refused", world.old.error_replies("READONLY").await > 0);
    old.cmd(&["REPLICAOF", "NO", "ONE"]).await;
    // The answers come apart, as they went: of two that the client reads at once, either may be looked at first.
    sleep(LATE / 2).await;
    let late = lock_tests::spawn(client.mutex("late").with(options()).lock());
    soon!("it has granted", old.exists("late").await);
    assert!(!refused.is_finished() && !late.is_finished(), "nothing was on its way");
    for (name, taken) in [("refused", refused), ("late", late)] {
        let guard = timeout(SOON, taken).await.expect("hung").unwrap().unwrap();
        assert!(world.new.client().exists(name).await, "{name}: granted by the old server");
        world.proxy.pass();
        guard.release().await.unwrap();
    }
});

/// The store is closed while a grant is on its way; also on the connection for locks that replicas have to
/// know of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_end_of_the_store() {
    let replicated = Some(Replicas::new(1, SOON));
    for replicas in [None, replicated] {
        let (server, proxy) = proxied().await;
        let store = Arc::new(RedisStore::connect(&proxy.url()).await.unwrap());
        let target = Target::mutex(LockKey::new("closed").unwrap()).with_replicas(replicas);
        let request =
            AcquireRequest::new(Arc::new(target), OwnerId::new(&client_id(), 1, 1), SOON, SOON);
        let late = lock_tests::spawn({
            let store = Arc::clone(&store);
            proxy.delay_replies(LATE);
            async move { store.acquire(request).await }
        });
        let granted = async || server.client().exists("closed").await;
        eventually(SOON, "it has granted", granted).await;
        store.close();
        let answer = timeout(SOON / 2, late).await.expect("hung").unwrap();
        let error = answer.expect_err("a closed store grants");
        assert_eq!(error.kind(), StoreErrorKind::OutcomeUnknown, "{error:?}");
    }
}
