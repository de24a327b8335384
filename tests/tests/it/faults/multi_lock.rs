//! Several locks as one (S-28) where replies are lost, parts go, and holds lie inside each other.

use crate::prelude::*;
use crate::support::troubled::{Trouble, Troubled};

/// Two servers behind proxies, and a client of each that puts up with a lot.
struct World {
    servers: [RedisServer; 2],
    proxies: [Proxy; 2],
    clients: [LockClient; 2],
}

impl World {
    async fn new() -> Self {
        let servers = [RedisServer::start().await, RedisServer::start().await];
        let ports = servers.each_ref().map(RedisServer::port);
        let proxies = [Proxy::start(ports[0]).await, Proxy::start(ports[1]).await];
        let client = async |proxy: &Proxy| {
            let builder = LockClient::builder().command_timeout(ms(300)).store_patience(3 * SOON);
            builder.connect(&proxy.url()).await.unwrap()
        };
        let clients = [client(&proxies[0]).await, client(&proxies[1]).await];
        Self { servers, proxies, clients }
    }

    /// The mutex `a` on the one server and `b` on the other, as one.
    fn both(&self) -> MultiLock {
        let [one, two] = &self.clients;
        MultiLock::of([one.mutex("a").into(), two.mutex("b").into()])
    }

    async fn held(&self) -> [bool; 2] {
        let [one, two] = self.servers.each_ref().map(RedisServer::client);
        [one.exists("a").await, two.exists("b").await]
    }
}

// S-21, S-28: a reply is lost, and before the next question another task has one of the names: the
// other is given back and not kept while waiting.
test_with!(several_names_keep_nothing_after_a_lost_reply, World::new(), async |world| {
    let (proxy, raw) = (&world.proxies[0], world.servers[0].client());
    let names = world.clients[0].multi_lock(["m1", "m2"]);
    names.lock().await.unwrap().release().await.unwrap();
    proxy.drop_next_reply_to("redisson_lock_token:{m1}");
    proxy.refuse();
    let waiter = lock_tests::spawn(async move { names.lock().await });
    soon!(
        "taken, unknown to us",
        proxy.replies_dropped() == 1 && raw.exists("m1").await && raw.exists("m2").await
    );
    raw.del("m2").await;
    raw.cmd(&["HSET", "m2", "somebody:1", "1"]).await;
    raw.cmd(&["PEXPIRE", "m2", "60000"]).await;
    proxy.pass();
    soon!("the other is given back", !raw.exists("m1").await);
    assert!(!waiter.is_finished());
    raw.del("m2").await;
    raw.cmd(&["PUBLISH", "redisson_lock__channel:{m2}", "0"]).await;
    let guard = timeout(SOON, waiter).await.expect("never had").unwrap().unwrap();
    guard.release().await.unwrap();
});

// S-21, S-28: the same over two servers, where the part of the lost reply could not be given back at
// once and the other has been taken by another client.
test_with!(two_servers_keep_nothing_after_a_lost_reply, World::new(), async |world| {
    let other = LockClient::connect(&world.servers[1].url()).await.unwrap();
    let held = other.mutex("b").lock().await.unwrap();
    let both = world.both();
    let waiter = lock_tests::spawn(async move { both.lock().await });
    world.servers[1].wait_for_subscribers("redisson_lock__channel:{b}", 1).await;
    // It waits for `b`, which refused it, and tries `a` next.
    let proxy = &world.proxies[0];
    proxy.drop_next_reply_to("redisson_lock_token:{a}");
    proxy.refuse();
    held.release().await.unwrap();
    soon!("`a` is taken, unknown to us", proxy.replies_dropped() == 1 && world.held().await[0]);
    let held = timeout(SOON, other.mutex("b").lock()).await.expect("kept").unwrap();
    proxy.pass();
    soon!("`a` is given back", !world.held().await[0]);
    assert!(!waiter.is_finished());
    held.release().await.unwrap();
    let guard = timeout(SOON, waiter).await.expect("never had").unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(world.held().await, [false, false]);
});

#[tokio::test(start_paused = true)]
async fn a_part_that_cannot_be_released_is_not_renewed() {
    let (lease, good, bad) = (ms(900), MemoryStore::new(), MemoryStore::new());
    let sticky = Troubled::new(bad.clone());
    let build = || LockClient::builder().command_timeout(ms(50));
    let one = build().store(good.peer()).unwrap();
    let two = build().store(sticky.clone()).unwrap();
    let both = MultiLock::of([one.mutex("a").into(), two.mutex("b").into()]);
    for drops in [false, true] {
        sticky.set(Trouble::None);
        let guard = both.clone().with(watched(lease)).lock().await.unwrap();
        let before = sticky.renewals();
        soon!("renewed", sticky.renewals() > before + 1);
        sticky.of_releases(Trouble::Fails(StoreErrorKind::NotReady));
        let (start, renewals) = (Instant::now(), sticky.renewals());
        let release = async move {
            match drops {
                true => drop(guard),
                false => drop(guard.release().await.unwrap_err()),
            }
        };
        let release = lock_tests::spawn(release);
        eventually(ms(20), "the other is free", async || good.holders("a").0.is_empty()).await;
        soon!("it ends", bad.holders("b").0.is_empty());
        assert!(start.elapsed() <= lease + ms(20), "drops: {drops}: {:?}", start.elapsed());
        assert_eq!(sticky.renewals(), renewals, "drops: {drops}");
        release.await.unwrap();
    }
}

/// S-6, S-30: permits are counted, so several locks with permits among them are no re-entry.
#[tokio::test(start_paused = true)]
async fn permits_inside_permits_are_more_permits() {
    let client = LockClient::in_memory();
    let [stock, desks] = ["stock", "desks"].map(|name| client.semaphore(name, 2));
    let pair = MultiLock::of([stock.clone().into(), desks.clone().into()]);
    let outer = pair.lock().await.unwrap();
    let inside = async {
        let inner = pair.try_lock().await.unwrap().expect("there are two of each");
        assert!(inner.token() > outer.token());
        assert!(pair.try_lock().await.unwrap().is_none(), "three of two");
        assert!(stock.try_acquire().await.unwrap().is_none());
        inner.release().await.unwrap();
        let permit = stock.try_acquire().await.unwrap().expect("one is left");
        assert!(stock.try_acquire().await.unwrap().is_none());
        permit.release().await.unwrap();
    };
    outer.run(inside).await.unwrap();
    outer.release().await.unwrap();
    // With a mutex among them the inner one would wait for the outer, and says so.
    let mixed = MultiLock::of([client.mutex("m").into(), stock.clone().into()]);
    let outer = mixed.lock().await.unwrap();
    let inner = outer.run(mixed.lock()).await.unwrap();
    assert!(matches!(inner, Err(LockError::WouldDeadlock { .. })), "{inner:?}");
    let nested = outer.run(client.mutex("m").lock()).await.unwrap().unwrap();
    assert_eq!(nested.token(), outer.token());
    drop(nested);
    outer.release().await.unwrap();
}

/// S-32: the same permits twice are once; others of the same semaphore are a mistake.
#[tokio::test(start_paused = true)]
async fn differing_permits_of_one_semaphore_are_refused() {
    let client = LockClient::in_memory();
    let of = |limit, permits| MultiMember::permits(&client.semaphore("s", limit), permits);
    for (other, says) in [(of(3, 2), "2 of 3 permits"), (of(4, 1), "1 of 4 permits")] {
        let wrong = MultiLock::of([client.mutex("m").into(), of(3, 1), other]);
        let error = wrong.lock().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
        let sentence = error.to_string();
        assert!(sentence.contains("1 of 3 permits") && sentence.contains(says), "{sentence}");
    }
    let once = MultiLock::of([of(3, 2), client.mutex("m").into(), of(3, 2)]);
    let guard = once.lock().await.unwrap();
    let left = client.semaphore("s", 3);
    let permit = left.try_acquire().await.unwrap().expect("two of three are taken");
    assert!(left.try_acquire().await.unwrap().is_none());
    drop((permit, guard));
}

// S-9: each client holds its own part of a lock, which is late when that client cannot renew it.
test_with!(each_client_knows_of_its_part, World::new(), async |world| {
    let lease = ms(3_000);
    let guard = world.both().with(watched(lease)).lock().await.unwrap();
    for (client, name) in world.clients.iter().zip(["a", "b"]) {
        let held = client.admin().held();
        let [info] = &held[..] else { panic!("{held:?}") };
        assert_eq!((info.key.as_str(), info.kind), (name, HoldKind::Mutex));
        assert_eq!(info.token, guard.token());
        assert!(client.health().is_healthy());
    }
    world.proxies[1].stall();
    let [good, late] = &world.clients;
    eventually(lease, "it is late", async || !late.health().is_healthy()).await;
    let health = late.health();
    assert!(health.last_renewal_failed, "{health:?}");
    assert_eq!(health.late[0].token, guard.token());
    assert!(good.health().is_healthy());
    world.proxies[1].pass();
    let good = async || world.clients.iter().all(|client| client.health().is_healthy());
    eventually(guard.remaining(), "it is well again", good).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    for client in &world.clients {
        assert_eq!(client.admin().held(), []);
    }
});
