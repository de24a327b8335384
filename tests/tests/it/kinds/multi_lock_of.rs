//! Locks of several kinds and several clients as one (S-28).

use crate::prelude::*;

const PATIENCE: Duration = ms(400);

/// Two servers, and a client of each.
struct World {
    servers: [RedisServer; 2],
    clients: [LockClient; 2],
}

impl World {
    async fn new() -> Self {
        let servers = [RedisServer::start().await, RedisServer::start().await];
        let clients = Self::clients(&servers).await;
        Self { servers, clients }
    }

    async fn clients(servers: &[RedisServer; 2]) -> [LockClient; 2] {
        let builder = LockClient::builder().store_patience(PATIENCE).command_timeout(PATIENCE);
        let [one, two] = servers.each_ref().map(RedisServer::url);
        [builder.clone().connect(&one).await.unwrap(), builder.connect(&two).await.unwrap()]
    }

    /// The mutex `a` on the one server and `b` on the other, as one.
    fn both(&self) -> MultiLock {
        let [one, two] = &self.clients;
        MultiLock::of([two.mutex("b").into(), one.mutex("a").into()])
    }

    async fn held(&self) -> [bool; 2] {
        let [one, two] = self.servers.each_ref().map(RedisServer::client);
        [one.exists("a").await, two.exists("b").await]
    }
}

fn two_of(client: &LockClient, name: &str) -> Semaphore {
    client.semaphore(name, 2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_or_none_over_two_servers() {
    let world = World::new().await;
    let [one, two] = &world.clients;
    let guard = world.both().lock().await.unwrap();
    assert_eq!((guard.key().as_str(), world.held().await), ("a + b", [true, true]));
    guard.release().await.unwrap();
    assert_eq!(world.held().await, [false, false]);
    let held = [one.mutex("a").lock().await.unwrap(), two.mutex("b").lock().await.unwrap()];
    assert!(world.both().try_lock().await.unwrap().is_none());
    let both = world.both();
    let waiter = lock_tests::spawn(async move { both.lock().await.unwrap() });
    soon!("it waits for one of them", one.admin().waiting().len() == 1);
    let [a, b] = held;
    a.release().await.unwrap();
    // While b is held, a is free for others once it was given back.
    soon!("a can be had", one.mutex("a").try_lock().await.unwrap().is_some());
    b.release().await.unwrap();
    let guard = timeout(SOON, waiter).await.expect("not told").unwrap();
    drop(guard);
    soon!("both are free", world.held().await == [false, false]);
}

/// S-28: `at_least` keeps what a guard of all has had, and nothing that was given back before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_are_given_back_are_not_kept() {
    let world = World::new().await;
    let [one, two] = &world.clients;
    let held = two.mutex("b").lock().await.unwrap();
    let long = world.both().at_least(secs(60));
    assert!(long.try_lock().await.unwrap().is_none());
    soon!("a is free", one.mutex("a").try_lock().await.unwrap().is_some());
    let both = world.both().at_least(ms(500));
    let waiter = lock_tests::spawn(async move { both.lock().await.unwrap() });
    soon!("it waits for b", !two.admin().waiting().is_empty());
    held.release().await.unwrap();
    let guard = timeout(SOON, waiter).await.expect("it waits for itself").unwrap();
    guard.release().await.unwrap();
    assert_eq!(world.held().await, [true, true], "not kept");
    soon!("both end", world.held().await == [false, false]);
}

/// S-28: nor once one of them was lost: the task is not inside of all any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_of_one_ends_at_least_for_all() {
    let world = World::new().await;
    let [one, two] = &world.clients;
    let both = world.both().at_least(secs(60));
    for (client, lost) in [(one, "a"), (two, "b")] {
        let guard = both.lock().await.unwrap();
        assert!(client.admin().force_release(lost).await.unwrap());
        assert!(guard.extend(secs(90)).await.unwrap_err().is_lost());
        assert!(guard.release().await.unwrap_err().is_lost());
        soon!("the other is free", world.held().await == [false, false]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_orders_never_deadlock() {
    let world = World::new().await;
    let alone = Arc::new(AtomicBool::new(true));
    let mut processes = Vec::new();
    for process in 0..4 {
        // One name on both servers, whose order is that in which a process made its clients.
        let mut servers = world.servers.each_ref();
        servers.rotate_left(process % 2);
        let [one, two] = servers;
        let clients = [connect(one).await, connect(two).await];
        let members = clients.map(|client| MultiMember::from(client.mutex("s")));
        let (both, alone) = (MultiLock::of(members), Arc::clone(&alone));
        processes.push(lock_tests::spawn(async move {
            for _ in 0..15 {
                let guard = both.lock().await.unwrap();
                assert!(alone.swap(false, Ordering::SeqCst), "two at once");
                tokio::task::yield_now().await;
                alone.store(true, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    joined(processes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_every_kind() {
    let world = World::new().await;
    let [one, two] = &world.clients;
    let all = MultiLock::of([
        one.mutex("m1").into(),
        one.mutex("m2").into(),
        two.fair_mutex("fair").into(),
        MultiMember::read(&one.rw_lock("prices")),
        MultiMember::write(&two.rw_lock("stock")),
        MultiMember::permits(&two_of(two, "permits"), 2),
    ]);
    let [others_one, others_two] = World::clients(&world.servers).await;
    // What others find free of it, which is all or none.
    let free = async || {
        let tried = [
            others_one.mutex("m1").try_lock().await,
            others_one.mutex("m2").try_lock().await,
            others_two.fair_mutex("fair").try_lock().await,
            others_one.rw_lock("prices").try_write().await,
            others_two.rw_lock("stock").try_read().await,
            two_of(&others_two, "permits").try_acquire().await,
        ];
        let guards: Vec<_> = tried.into_iter().filter_map(Result::unwrap).collect();
        let count = guards.len();
        release_all(guards).await;
        count
    };
    let guard = all.lock().await.unwrap();
    assert_eq!(free().await, 0);
    drop(others_one.rw_lock("prices").try_read().await.unwrap().expect("readers share"));
    // Each is renewed in its own way.
    guard.extend(secs(300)).await.unwrap();
    assert!(guard.remaining() > secs(290));
    guard.release().await.unwrap();
    soon!("all are free", free().await == 6);
    // Held by somebody in its line, a fair mutex is still had in the end.
    let held = others_two.fair_mutex("fair").lock().await.unwrap();
    let waiter = lock_tests::spawn(async move { all.lock().await.unwrap() });
    soon!("it waits", two.admin().waiting().len() == 1);
    held.release().await.unwrap();
    timeout(SOON, waiter).await.expect("never had").unwrap().release().await.unwrap();
}

/// S-28: a member that cannot be asked leaves nothing held, and is no "busy" (S-33).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partial_failure_leaves_nothing_held() {
    let world = World::new().await;
    world.both().lock().await.unwrap().release().await.unwrap();
    // Killed, nothing is sent; stopped, nobody knows.
    for stop in [RedisServer::kill, RedisServer::pause] {
        stop(&world.servers[1]);
        let start = Instant::now();
        let error = world.both().lock().await.unwrap_err();
        assert!(matches!(error, LockError::Store(_)), "{error:?}");
        assert!(start.elapsed() < patience(6 * PATIENCE), "{:?}", start.elapsed());
        let raw = world.servers[0].client();
        let free = async || !raw.exists("a").await;
        eventually(PATIENCE, "the other is given back", free).await;
        world.servers[1].restart().await;
        let works = async || world.both().try_lock().await.is_ok_and(|guard| guard.is_some());
        eventually(SOON, "it works again", works).await;
    }
}

/// S-23, S-28: where the token of the other cannot be put on record, nothing stays held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_one_refuses_leaves_nothing_held() {
    let world = World::new().await;
    let ahead = (1u64 << 52).to_string();
    world.servers[1].client().cmd(&["SET", "redisson_lock_token:{b}", &ahead]).await;
    // Acquiring writes the counter; who raises it reads it first.
    world.servers[0].client().cmd(&["ACL", "SETUSER", "default", "-get"]).await;
    let error = world.both().lock().await.unwrap_err();
    assert!(matches!(error, LockError::Store(_)), "{error:?}");
    let free = async || world.held().await == [false, false];
    eventually(PATIENCE, "both are given back", free).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failing_release_does_not_keep_the_others() {
    let world = World::new().await;
    let raw = world.servers[0].client();
    for is_dropped in [false, true] {
        let guard = world.both().lock().await.unwrap();
        world.servers[1].pause();
        let release = match is_dropped {
            true => {
                drop(guard);
                None
            }
            false => Some(lock_tests::spawn(guard.release())),
        };
        eventually(PATIENCE, "the other is free", async || !raw.exists("a").await).await;
        if let Some(release) = release {
            assert!(matches!(release.await.unwrap(), Err(LockError::Store(_))));
        }
        world.servers[1].resume();
        soon!("this one as well", world.held().await == [false, false]);
    }
}

/// S-6: its members are re-entered through their own clients; a part of it in the way is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_knows_the_members() {
    let world = World::new().await;
    let [one, two] = &world.clients;
    let guard = world.both().with(fixed(SOON)).lock().await.unwrap();
    let inside = async {
        let options = waits(secs(1));
        // One after the other: side by side they exclude each other.
        for nested in [
            one.mutex("a").with(options.clone()).lock(),
            two.mutex("b").with(options.clone()).lock(),
            world.both().with(options.clone()).lock(),
        ] {
            assert_eq!(nested.await.unwrap().token(), guard.token());
        }
        // The same name in another client is another lock.
        two.mutex("a").lock().await.unwrap().release().await.unwrap();
        let more = one.multi_lock(["a", "c"]).with(options).lock().await;
        assert!(matches!(more, Err(LockError::WouldDeadlock { .. })), "{more:?}");
    };
    guard.run(inside).await.unwrap();
    guard.release().await.unwrap();
    let guard = one.mutex("a").lock().await.unwrap();
    let inner = guard.run(world.both().lock()).await.unwrap();
    assert!(matches!(inner, Err(LockError::WouldDeadlock { .. })), "{inner:?}");
}

/// S-20: it ends with each of its clients, whose shutdown waits for what it gives back there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_with_its_clients() {
    let world = World::new().await;
    let both = world.both();
    drop(both.lock().await.unwrap());
    assert!(world.clients[1].shutdown(SOON).await.is_clean());
    assert!(!world.held().await[1]);
    soon!("the other part is given back, too", world.held().await == [false, false]);
    assert!(matches!(both.lock().await, Err(LockError::Closed)));
    assert!(matches!(world.both().lock().await, Err(LockError::Closed)));
    world.clients[0].mutex("a").lock().await.unwrap().release().await.unwrap();
}

/// S-32: what is wrong with the members is said when they are locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_members_are_refused() {
    let world = World::new().await;
    let [one, two] = &world.clients;
    let lock = one.rw_lock("x");
    let too_many = MultiMember::permits(&two_of(two, "p"), 3);
    for (wrong, says) in [
        (MultiLock::of([]), "name at least one"),
        (MultiLock::of([MultiMember::read(&lock), MultiMember::write(&lock)]), "name it once"),
        (MultiLock::of([one.mutex("m").into(), too_many]), "3 permits are wanted"),
    ] {
        let error = wrong.try_lock().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
    // One client's mutexes, or a single lock, are what they are anywhere else.
    let names = MultiLock::of([one.mutex("n2").into(), one.mutex("n1").into()]);
    let guard = names.lock().await.unwrap();
    drop(guard.run(one.mutex("n1").lock()).await.unwrap().unwrap());
    drop(MultiLock::of([two.mutex("n1").into()]).lock().await.unwrap());
}

/// The locks of two clients keep neither of them: the connections of one that is dropped close while the other lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_client_ends_its_joint_locks() {
    let server = RedisServer::start().await;
    let connections = async |name: &str| {
        let list: String = server.client().get(&["CLIENT", "LIST"]).await;
        list.lines().filter(|line| line.contains(name)).count()
    };
    for is_first in [true, false] {
        let stays = connect(&server).await;
        let goes = connect(&server).await;
        let name = format!("name=lock-runtime:{}:", goes.id());
        let (first, second) = if is_first { ("a", "b") } else { ("b", "a") };
        let both = MultiLock::of([goes.mutex(first).into(), stays.fair_mutex(second).into()]);
        let guard = both.lock().await.unwrap();
        soon!("it is connected", connections(&name).await > 0);
        // What is held is renewed and given back as before.
        drop((both, goes));
        guard.release().await.unwrap();
        soon!("its connections close", {
            // The other goes on as usual, which is what notices.
            stays.mutex("c").lock().await.unwrap().release().await.unwrap();
            connections(&name).await == 0
        });
    }
}
