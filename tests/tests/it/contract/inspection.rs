//! Looking at locks and freeing them by force, from another process than the holder's.

use crate::prelude::*;

/// An owner as Redisson names its own.
const OWNER: &str = "3b241101-e2bb-4255-8caf-4136c566a962:57";

/// A name as each kind, held by another client; before, meanwhile and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_is_recognised() {
    let (_server, client, other) = world_of_two().await;
    for (kind, is) in KINDS {
        let inspect = async || client.admin().inspect(kind).await.unwrap();
        assert_eq!(inspect().await, lock_runtime::admin::Inspection::default());
        let guard = take_named(&other, kind, LockOptions::default()).await.unwrap();
        let (found, token) = (inspect().await, Some(guard.token()));
        assert_eq!((found.kind, found.last_token, found.waiting), (Some(is), token, 0));
        let left = found.remaining.expect("it has an end");
        assert!(left <= secs(30) && left > secs(20), "{left:?}");
        let [holder] = &found.holders[..] else { panic!("{found:?}") };
        assert_eq!((&*holder.client, holder.count), (&*other.id().to_string(), 1), "{found:?}");
        guard.release().await.unwrap();
        let found = inspect().await;
        assert_eq!((found.kind, found.remaining, found.last_token), (None, None, token));
        assert!(found.holders.is_empty(), "{found:?}");
    }
}

/// S-26, S-27, S-30: several holders, permits, waiters with a place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_and_waiters_are_counted() {
    let (_server, client, other) = world_of_two().await;
    let inspect = async |name| client.admin().inspect(name).await.unwrap();
    let reader = client.rw_lock("rw").read().await.unwrap();
    // A reader whose own lease is over is none, however long others keep the hash.
    let brief = other.rw_lock("rw").with(fixed(ms(400))).read().await.unwrap();
    assert_eq!(inspect("rw").await.holders.len(), 2);
    soon!("one is left", inspect("rw").await.holders.len() == 1);
    let writer = lock_tests::spawn(other.rw_lock("rw").write());
    let fair = client.fair_mutex("queue").lock().await.unwrap();
    let waiter = lock_tests::spawn(other.fair_mutex("queue").lock());
    for (name, waiting) in [("rw", writer), ("queue", waiter)] {
        soon!("it waits", inspect(name).await.waiting == 1);
        waiting.abort();
    }
    let three = client.semaphore("five", 5).acquire_many(3).await;
    let one = other.semaphore("five", 5).acquire().await.unwrap();
    let found = inspect("five").await;
    let mut counts: Vec<_> = found.holders.iter().map(|holder| holder.count).collect();
    counts.sort_unstable();
    assert_eq!((found.kind, counts), (Some(HoldKind::Semaphore), vec![1, 3]));
    drop((reader, brief, fair, three, one));
}

/// S-32: another program's data is no lock; it is said to be that, and left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_not_freed() {
    let (server, client) = world().await;
    let raw = server.client();
    let uuid = OWNER.split(':').next().unwrap();
    let most = "9".repeat(400);
    let data = [
        &["SADD", "set", "x"][..],
        &["SET", "text", "words"],
        &["HSET", "user", "name", "words", "age", "7"],
        &["HSET", "numbers", "a", "1"],
        &["HSET", "moded", "mode", "dark"],
        &["HSET", "metrics", "GET:200", "5"],
        &["HSET", "read", "mode", "read", "theme:1", "5"],
        &["HSET", "short", "3b241101-e2bb-4255-8caf-413610114:57", "1"],
        &["HSET", "bare", uuid, "1"],
        &["HSET", "words", OWNER, "once"],
        &["HSET", "mixed", OWNER, "1", "name", "words"],
        &["HSET", "endless", OWNER, &most],
        &["SET", "listed", "3"],
    ];
    for command in data {
        raw.cmd(command).await;
    }
    raw.cmd(&["RPUSH", "{listed}:timeout", "alice"]).await;
    let before = dump(&raw).await;
    for name in data.map(|command| command[1]) {
        for error in [
            client.admin().inspect(name).await.unwrap_err(),
            client.admin().force_release(name).await.unwrap_err(),
        ] {
            assert!(matches!(error, LockError::KeyCollision { .. }), "{name}: {error:?}");
        }
        assert_eq!(dump(&raw).await, before, "{name} was changed");
    }
    // What a semaphore of the name would have beside it, with members of another kind.
    raw.cmd(&["SET", "sessions", "3"]).await;
    for key in ["{sessions}:timeout", "{none}:timeout"] {
        let ends = "9000000000000";
        raw.cmd(&["ZADD", key, ends, "alice", ends, "sixteen letters!"]).await;
    }
    raw.cmd(&["SET", "count", "3"]).await;
    let before = dump(&raw).await;
    let latch = Some(HoldKind::Latch);
    for (name, kind) in [("sessions", latch), ("none", None), ("count", latch)] {
        assert_eq!(client.admin().inspect(name).await.unwrap().kind, kind, "{name}");
        assert!(!client.admin().force_release(name).await.unwrap(), "{name}");
    }
    assert_eq!(dump(&raw).await, before);
    // Permits among them are freed, and nothing else.
    raw.cmd(&["ZADD", "{sessions}:timeout", "9000000000000", OWNER]).await;
    assert!(client.admin().force_release("sessions").await.unwrap());
    assert_eq!(raw.get::<u64>(&["ZCARD", "{sessions}:timeout"]).await, 2);
    assert_eq!(raw.get::<u64>(&["GET", "sessions"]).await, 4);
    assert!(matches!(client.admin().inspect("a\nb").await, Err(LockError::InvalidKey { .. })));
}

/// The keys, their values and their ends.
async fn dump(raw: &RawClient) -> BTreeMap<String, (Vec<u8>, Ttl)> {
    let mut all = BTreeMap::new();
    for key in raw.keys().await {
        let value = raw.get(&["DUMP", &key]).await;
        let ttl = raw.pttl(&key).await;
        all.insert(key, (value, ttl));
    }
    all
}

/// S-25, S-27: Redisson's owners are locks, each in its own form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redissons_holds_are_freed() {
    let (server, client) = world().await;
    let raw = server.client();
    let transaction = format!("{OWNER}:6e1f0b6a0c3e4d099f382d4b2f7b3d10");
    let (write, negative) = (format!("{OWNER}:write"), OWNER.replace(":57", ":-57"));
    for (name, fields) in [
        ("plain", vec![OWNER, "2"]),
        ("transaction", vec![&transaction, "1"]),
        ("negative", vec![&negative, "1"]),
        ("write", vec!["mode", "write", &write, "1", OWNER, "1"]),
    ] {
        raw.cmd(&[vec!["HSET", name], fields].concat()).await;
        raw.cmd(&["PEXPIRE", name, "30000"]).await;
        assert!(client.admin().inspect(name).await.unwrap().kind.is_some(), "{name}");
        assert!(client.admin().force_release(name).await.unwrap(), "{name}");
        assert!(!raw.exists(name).await, "{name}");
    }
    // Of its permits, only they themselves are known, as 16 random bytes.
    raw.cmd(&["SET", "permits", "1"]).await;
    raw.cmd(&["ZADD", "{permits}:timeout", "922337203685477", "\u{1}\u{2}23456789abcdef"]).await;
    assert_eq!(client.admin().inspect("permits").await.unwrap().kind, Some(HoldKind::Semaphore));
    assert!(client.admin().force_release("permits").await.unwrap());
    assert_eq!(raw.get::<i64>(&["GET", "permits"]).await, 2);
}

/// What somebody keeps where a line would be does not keep a lock from being freed, and is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_in_place_of_a_line_is_left_alone() {
    let (server, client) = world().await;
    let raw = server.client();
    raw.cmd(&["RPUSH", "redisson_lock_queue:{ends}", OWNER]).await;
    raw.cmd(&["HSET", "redisson_lock_timeout:{ends}", "a", "b"]).await;
    raw.cmd(&["HSET", "redisson_lock_queue:{line}", "a", "b"]).await;
    let before = dump(&raw).await;
    for name in ["ends", "line"] {
        raw.cmd(&["HSET", name, OWNER, "1"]).await;
        raw.cmd(&["PEXPIRE", name, "30000"]).await;
        assert!(client.admin().force_release(name).await.unwrap(), "{name}");
    }
    assert_eq!(dump(&raw).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_count_is_answered_at_once() {
    let (server, client) = world().await;
    let raw = server.client();
    let soon = waits(Wait::None);
    let at_once = secs(2);
    let start = Instant::now();
    for mode in ["read", "write", "mutex", "fair"] {
        let fields = ["mode", mode, OWNER, "1000000000"];
        let fields = if mode == "mutex" { &fields[2..] } else { &fields };
        let set = async || {
            raw.del(mode).await;
            raw.cmd(&[&["HSET", mode], fields].concat()).await;
            raw.cmd(&["PEXPIRE", mode, "30000"]).await;
        };
        set().await;
        let found = timeout(at_once, client.admin().inspect(mode)).await.expect("hangs").unwrap();
        // A reader whose time-outs are gone has ended.
        let holders = usize::from(mode == "mutex" || mode == "fair");
        assert_eq!(found.holders.len(), holders, "{mode}: {found:?}");
        for (kind, _) in KINDS {
            let taken = take(&client, kind, mode, soon.clone());
            if let Ok(guard) = timeout(at_once, taken).await.expect("hangs") {
                timeout(at_once, guard.release()).await.expect("hangs").unwrap();
            }
        }
        set().await;
        timeout(at_once, client.admin().force_release(mode)).await.expect("hangs").unwrap();
        assert!(!raw.exists(mode).await, "{mode}");
    }
    assert!(start.elapsed() < patience(SOON), "{:?}", start.elapsed());
}

/// The waiter of another client has it at once; the old holder hears of it at its next renewal and does its successor no harm,
/// whatever it then does (S-12, S-19, S-23).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_passes_the_lock_on() {
    let (_server, client, other) = world_of_two().await;
    let lease = ms(2_400);
    for (kind, is) in KINDS {
        let admin = client.admin();
        assert!(!admin.force_release(kind).await.unwrap(), "{kind}: no task held it");
        let guard = take_named(&client, kind, watched(lease)).await.unwrap();
        let wanted = crate::support::kinds::rival(kind);
        let waiter = lock_tests::spawn({
            let other = other.clone();
            async move { take(&other, wanted, kind, waits(SOON)).await }
        });
        sleep(ms(150)).await;
        assert!(!waiter.is_finished(), "{kind}: two have it");
        let start = Instant::now();
        assert!(admin.force_release(kind).await.unwrap());
        let next = timeout(SOON, waiter).await.expect("not told").unwrap().unwrap();
        // Its own timers would take seconds.
        assert!(start.elapsed() < patience(ms(800)), "{kind}: {:?}", start.elapsed());
        assert!(next.token() > guard.token(), "{kind}");
        let lost = timeout(lease * 2 / 3, guard.lost()).await.expect("not noticed");
        assert!(matches!(lost, LockError::Lost { cause: LossCause::NotOwner, .. }), "{lost:?}");
        let found = admin.inspect(kind).await.unwrap();
        let is = if kind == "read" { HoldKind::Write } else { is };
        assert_eq!((found.kind, found.last_token), (Some(is), Some(next.token())));
        assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
        // Its clean-up has reached the server by the time of this answer.
        let outcome = take_named(&client, kind, waits(Wait::None)).await;
        assert!(matches!(outcome, Err(LockError::Busy { .. })), "{kind}: {outcome:?}");
        next.release().await.unwrap();
        take_named(&client, kind, waits(Wait::None)).await.unwrap().release().await.unwrap();
    }
}

/// S-6: what is held, one entry for each hold.
#[tokio::test]
async fn the_client_knows_what_it_holds() {
    let client = LockClient::builder().namespace("shop").in_memory().unwrap();
    assert_eq!(client.admin().held(), []);
    let take = |(kind, _)| take_named(&client, kind, watched(secs(10)));
    let guards: Vec<_> = join_all(KINDS.map(take)).await.into_iter().map(Result::unwrap).collect();
    let nested = guards[0].run(client.mutex("mutex").lock()).await.unwrap().unwrap();
    let shared = client.rw_lock("read").with(watched(secs(10))).read().await.unwrap();
    let mut held = client.admin().held();
    held.sort_by_key(|info| KINDS.iter().position(|(_, kind)| *kind == info.kind));
    assert_eq!(held.len(), KINDS.len(), "{held:?}");
    for ((info, (name, kind)), guard) in held.iter().zip(KINDS).zip(&guards) {
        assert_eq!((info.key.as_str(), info.kind), (&*format!("shop:{name}"), kind));
        assert_eq!(info.token, guard.token());
        assert!(info.remaining <= secs(10) && !info.remaining.is_zero());
        assert!(info.held_for < SOON);
        let site = info.site.as_deref().unwrap();
        assert!(site.contains(".rs:"), "{site}");
        assert_eq!(info.policy, None);
    }
    drop((nested, shared));
    assert_eq!(client.admin().held().len(), KINDS.len());

    drop(guards);
    soon!("nothing is held", client.admin().held().is_empty());
}

/// S-9: bad once renewals have failed for half a lease and not before, and good again after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_renewals_show() {
    let (_server, proxy, client) = far_world().await;
    let lease = secs(8);
    let _never_renewed = client.mutex("fixed").with(fixed(lease)).lock().await.unwrap();
    let start = Instant::now();
    let guard = client.mutex("late").with(watched(lease)).lock().await.unwrap();
    proxy.black_hole();
    assert!(client.health().is_healthy());
    eventually(lease, "it is late", async || !client.health().is_healthy()).await;
    assert!(start.elapsed() >= lease / 2, "after {:?}", start.elapsed());
    assert!(start.elapsed() < patience(lease * 5 / 8), "only after {:?}", start.elapsed());
    let health = client.health();
    assert!(health.last_renewal_failed);
    let [late] = &health.late[..] else { panic!("{health:?}") };
    assert_eq!((late.key.as_str(), late.token), ("late", guard.token()));
    proxy.pass();
    let good = async || client.health().is_healthy() && !client.health().last_renewal_failed;
    eventually(guard.remaining(), "it is well again", good).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}
