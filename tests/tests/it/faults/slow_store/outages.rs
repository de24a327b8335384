//! With the store away, a caller that does not wait is told so, and never that the lock is busy (S-33).

use crate::faults::slow_store::*;
use crate::support::kinds::take_one_or_several as take;
use crate::tower::http::*;

const PATIENCE: Duration = secs(8);

/// How the store goes away.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outage {
    /// Its host answers: nothing listens there.
    Killed,
    /// Nothing answers.
    Silent,
}

const OUTAGES: [Outage; 2] = [Outage::Killed, Outage::Silent];

struct World {
    server: RedisServer,
    proxy: Proxy,
    client: LockClient,
}

impl World {
    async fn new() -> Self {
        let (server, proxy) = proxied().await;
        let builder = LockClient::builder().command_timeout(ms(300)).store_patience(PATIENCE);
        let config = "lock.policies.trial = { enforce = false }";
        let config = LockConfig::from_deserializer(toml::Deserializer::parse(config).unwrap());
        let client = builder.config(config.unwrap()).connect(&proxy.url()).await.unwrap();
        Self { server, proxy, client }
    }

    fn end(&self, outage: Outage) {
        match outage {
            Outage::Killed => {
                self.proxy.refuse();
                self.proxy.reset_all();
            }
            Outage::Silent => self.proxy.stall(),
        }
    }

    /// A task of this process that asks for the lock of that kind.
    fn contend(&self, kind: &'static str) -> JoinHandle<()> {
        let client = self.client.clone();
        let options = LockOptions::default();
        lock_tests::spawn(async move { drop(take(&client, kind, kind, options).await) })
    }

    async fn attempt(&self, kind: &str) -> Result<Option<LockGuard>, LockError> {
        let client = &self.client;
        let tried = async {
            match kind {
                "mutex" => client.mutex(kind).try_lock().await,
                "fair" => client.fair_mutex(kind).try_lock().await,
                "read" => client.rw_lock(kind).try_read().await,
                "write" => client.rw_lock(kind).try_write().await,
                "multi" => client.multi_lock(["multi-a", "multi-b"]).try_lock().await,
                _ => client.semaphore(kind, 1).try_acquire().await,
            }
        };
        timeout(SOON, tried).await.expect("a try that waits for ever")
    }
}

const ALL: [&str; 6] = ["mutex", "fair", "read", "write", "semaphore", "multi"];

fn is_store<T>(tried: &Result<T, LockError>) -> bool {
    matches!(tried, Err(LockError::Store(_)))
}

/// Whether the contender has just come, has no answer yet, has failed for a while, or hears of the
/// outage while it sleeps behind a holder elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_beside_a_contender_tells_of_the_outage() {
    for outage in OUTAGES {
        let world = World::new().await;
        for kind in ALL {
            // The server knows the scripts.
            drop(world.attempt(kind).await.unwrap().expect("it is free"));
        }
        sleep(ms(50)).await;
        world.end(outage);
        let contenders = ALL.map(|kind| world.contend(kind));
        for wait in [ms(0), ms(5), ms(400), ms(1_000)] {
            sleep(wait).await;
            for kind in ALL {
                let tried = world.attempt(kind).await;
                assert!(is_store(&tried), "{kind}, {outage:?}, after {wait:?}: {tried:?}");
            }
        }
        contenders.iter().for_each(JoinHandle::abort);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_beside_a_sleeping_contender_tells_of_the_outage() {
    for outage in OUTAGES {
        let world = World::new().await;
        let other = LockClient::connect(&world.server.url()).await.unwrap();
        for (kind, channel) in
            [("mutex", "redisson_lock__channel:{mutex}"), ("write", "redisson_rwlock:{write}")]
        {
            let held = take(&other, kind, kind, LockOptions::default()).await.unwrap();
            let contender = world.contend(kind);
            world.server.wait_for_subscribers(channel, 1).await;
            // Held elsewhere, and the store says so.
            assert!(world.attempt(kind).await.unwrap().is_none(), "{kind}");
            world.end(outage);
            let tried = world.attempt(kind).await;
            assert!(is_store(&tried), "{kind}, {outage:?}: {tried:?}");
            world.proxy.pass();
            let answers = async || world.attempt(kind).await.is_ok_and(|tried| tried.is_none());
            lock_tests::eventually(SOON, "the store is back", answers).await;
            contender.abort();
            held.release().await.unwrap();
        }
    }
}

// S-33: a short wait in line says no more than a try.
test_with!(a_short_wait_in_line_tells_of_the_outage, World::new(), async |world| {
    world.end(Outage::Silent);
    for kind in ["mutex", "write"] {
        let first = world.contend(kind);
        sleep(ms(5)).await;
        let brief = waits(ms(20));
        let waited = timeout(SOON, take(&world.client, kind, kind, brief)).await.unwrap();
        assert!(is_store(&waited), "{kind}: {waited:?}");
        first.abort();
    }
});

test_with!(what_is_held_here_is_busy_also_in_an_outage, World::new(), async |world| {
    for kind in ["mutex", "write"] {
        let held = take(&world.client, kind, kind, LockOptions::default()).await;
        let contender = world.contend(kind);
        world.end(Outage::Silent);
        let tried = timeout(ms(200), world.attempt(kind)).await.expect("asks the store");
        assert!(tried.unwrap().is_none(), "{kind}");
        world.proxy.pass();
        contender.abort();
        drop(held);
    }
});

#[distributed_lock(key = "mutex", client = client, on_busy = skip)]
async fn skips(client: &LockClient) -> Result<Option<()>, LockError> {
    let _ = client;
    Ok(Some(()))
}

async fn otherwise(_: &LockClient) -> Result<&'static str, LockError> {
    Ok("fallback")
}

#[distributed_lock(key = "mutex", client = client, wait = none, on_busy = fallback(otherwise))]
async fn falls_back(client: &LockClient) -> Result<&'static str, LockError> {
    let _ = client;
    Ok("body")
}

// A call that is skipped when busy is not skipped in an outage, nor answered by its fallback; and a
// layer says that the store is away.
test_with!(calls_and_requests_tell_of_the_outage, World::new(), async |world| {
    let client = &world.client;
    let layer = LockLayer::http().client(client.clone()).key("mutex").wait(Wait::None);
    let service = layer.build().unwrap().layer(service_fn(|_: http::Request<String>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
    }));
    world.end(Outage::Silent);
    let contender = world.contend("mutex");
    sleep(ms(5)).await;
    assert!(is_store(&skips(client).await) && is_store(&falls_back(client).await));
    let request = http::Request::post("/").body(String::new()).unwrap();
    let answer = service.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 503);
    contender.abort();
});
