//! The permissions that `connect` documents: what they are enough for, and what they name.

use std::path::PathBuf;

use crate::prelude::*;
use crate::support::kinds;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lock-runtime/src")
}

/// The words of the first block of text that is documented after these.
pub(crate) fn block(after: &str) -> Vec<String> {
    let source = fs::read_to_string(source().join("client/connect.rs")).unwrap();
    let (_, rest) = source.split_once(after).expect("it is documented");
    let (block, _) = rest.split_once("```\n").expect("the block ends");
    let words = block.split_whitespace().filter(|word| *word != "///");
    words.map(|word| word.replace("SECRET", "pw")).collect()
}

/// The words of the documented `ACL SETUSER` command.
fn documented() -> Vec<String> {
    block("ACL SETUSER locks")
}

/// A server where such a user may log in, and its address for that user.
async fn world(rules: &[String]) -> (RedisServer, String) {
    let server = RedisServer::start().await;
    let mut words = vec!["ACL", "SETUSER", "locks"];
    words.extend(rules.iter().map(String::as_str));
    server.client().cmd(&words).await;
    let url = format!("redis://locks:pw@127.0.0.1:{}", server.port());
    (server, url)
}

/// Each command that a script calls is documented, and none that nothing calls.
#[test]
fn the_documented_commands_are_those_of_the_scripts() {
    let mut called = BTreeSet::new();
    for entry in fs::read_dir(source().join("store/redis/scripts")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "lua") {
            let text = fs::read_to_string(&path).unwrap();
            // Of `pcall('…')` as well, which a script may name `try`.
            let calls = ["call('", "try('"].into_iter().flat_map(|call| text.split(call).skip(1));
            let commands = calls.filter_map(|rest| rest.split('\'').next());
            called.extend(commands.map(str::to_lowercase));
        }
    }
    assert!(called.len() > 20, "only {called:?} found: the test does not see the scripts any more");
    // What is called from outside of scripts.
    for own in ["evalsha", "script|load", "ping", "subscribe", "unsubscribe", "wait", "scan"] {
        called.insert(own.to_owned());
    }
    let documented: BTreeSet<_> =
        documented().iter().filter_map(|word| word.strip_prefix('+')).map(str::to_owned).collect();
    assert_eq!(documented, called);
}

// Everything that each kind does: take, wait, be told, renew, extend, give back; and what operators do.
test_with!(they_are_enough_for_every_kind, world(&documented()), async |(server, url)| {
    let client = LockClient::connect(&url).await.unwrap();
    let admin = connect(&server).await;
    let options = LockOptions::default();
    for (kind, is) in KINDS {
        let other = if kind == "read" { "write" } else { kind };
        let held = kinds::take(&admin, other, kind, options.clone()).await.unwrap();
        let (waiter, name, with) = (client.clone(), kind.to_owned(), options.clone());
        let waiter = lock_tests::spawn(async move { take_named(&waiter, &name, with).await });
        soon!("it may listen", {
            let channels: Vec<String> =
                server.client().get(&["PUBSUB", "CHANNELS", &format!("*{kind}*")]).await;
            !channels.is_empty()
        });
        held.release().await.unwrap();
        let guard = waiter.await.unwrap().unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        guard.extend(secs(60)).await.unwrap();
        assert_eq!(client.admin().inspect(kind).await.unwrap().kind, Some(is));
        guard.release().await.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        let guard = take_named(&client, kind, options.clone()).await.unwrap();
        assert!(client.admin().force_release(kind).await.unwrap());
        drop(guard);
        let guard = take_named(&client, kind, options.clone()).await.unwrap();
        guard.release().await.unwrap();
    }
    // A writer that reads and lets others in, a dead queue member, permits in bulk.
    let writer = client.rw_lock("down").write().await.unwrap();
    let reader = writer.run(client.rw_lock("down").read()).await.unwrap().unwrap();
    writer.release().await.unwrap();
    reader.release().await.unwrap();
    let raw = server.client();
    raw.cmd(&["ZADD", "redisson_lock_timeout:{dead}", "1", "gone:1"]).await;
    raw.cmd(&["RPUSH", "redisson_lock_queue:{dead}", "gone:1"]).await;
    client.fair_mutex("dead").lock().await.unwrap().release().await.unwrap();
    let three = 3;
    let permits = client.semaphore("bulk", three).acquire_many(three).await.unwrap();
    permits.release().await.unwrap();
});

// Locks that ask for replicas need WAIT as well (S-31).
test_with!(they_are_enough_for_replicas, world(&documented()), async |(server, url)| {
    let _replica = RedisServer::builder().replica_of(server.port()).start().await;
    server.wait_for_replicas(1).await;
    let client = LockClient::connect(&url).await.unwrap();
    let options = LockOptions::new().replicas(Replicas::new(1, SOON));
    take_named(&client, "mutex", options).await.unwrap().release().await.unwrap();
});

/// A client whose user may not run PEXPIREAT renews by PEXPIRE.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_do_without_pexpireat() {
    let mut rules = documented();
    rules.push("-pexpireat".to_owned());
    let (server, url) = world(&rules).await;
    let client = LockClient::connect(&url).await.unwrap();
    let guard = client.mutex("acl").with(watched(ms(300))).lock().await.unwrap();
    guard.extend(secs(60)).await.unwrap();
    let left = server.client().pttl("acl").await;
    assert!(matches!(left, Ttl::Left(left) if left > secs(50)), "{left:?}");
    // A renewal must not shorten the lease.
    server.reset_stats().await;
    soon!("it was renewed", server.command_calls().await.get("evalsha").is_some_and(|n| *n >= 3));
    let left = server.client().pttl("acl").await;
    assert!(matches!(left, Ttl::Left(left) if left > secs(50)), "{left:?}");
    // Nor leave a lock without an end.
    server.client().cmd(&["PERSIST", "acl"]).await;
    guard.extend(secs(90)).await.unwrap();
    let left = server.client().pttl("acl").await;
    assert!(matches!(left, Ttl::Left(left) if left > secs(50)), "{left:?}");
    guard.release().await.unwrap();
}

/// S-19: a lock is free once its hold is gone, so a release that may not publish its notification is a release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_may_not_notify_is_a_release() {
    for lacks in ["resetchannels", "-publish"] {
        let mut rules = documented();
        rules.push(lacks.to_owned());
        let (server, url) = world(&rules).await;
        let client = LockClient::connect(&url).await.unwrap();
        for (kind, _) in KINDS {
            for kept in [None, Some(ms(100))] {
                let options = kept.into_iter().fold(LockOptions::new(), LockOptions::at_least);
                let guard = take_named(&client, kind, options).await.unwrap();
                let released = guard.release().await;
                assert!(released.is_ok(), "{lacks} {kind} {kept:?}: {released:?}");
                // The number of free permits outlasts the hold.
                if kind != "semaphore" {
                    nothing_left(&server, kind).await;
                }
            }
            let guard = take_named(&client, kind, LockOptions::new()).await.unwrap();
            assert!(client.admin().force_release(kind).await.unwrap(), "{lacks} {kind}");
            drop(guard);
        }
        let several = client.multi_lock(["{acl}:1", "{acl}:2"]).lock().await.unwrap();
        several.release().await.unwrap();
        let latch = client.latch("latch");
        assert!(latch.try_set_count(1).await.unwrap());
        assert_eq!(latch.count_down().await.unwrap(), 0);
    }
}

// S-10: a user who may not set expiries gets no lock, and leaves none that has no end: asked of the
// store itself, which gives nothing back afterwards.
test_with!(a_lock_without_an_end_is_never_left, world(&documented()), async |(server, url)| {
    let (store, raw) = (RedisStore::connect(&url).await.unwrap(), server.client());
    let key = |name| LockKey::new(name).unwrap();
    let targets = [
        Target::mutex(key("mutex")),
        Target::fair(key("fair")),
        Target::read(key("read")),
        Target::write(key("write")),
        Target::several([key("one"), key("two")]).unwrap(),
    ];
    for target in targets {
        let acquire = |hold, lease| {
            store.acquire(AcquireRequest::new(
                target.clone(),
                OwnerId::new("8f1c", hold, 1),
                lease,
                SOON,
            ))
        };
        raw.cmd(&["ACL", "SETUSER", "locks", "-pexpire"]).await;
        let error = acquire(1, SOON).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{target:?}: {error:?}");
        for name in ["mutex", "fair", "read", "write", "one", "two"] {
            assert!(!raw.exists(name).await, "{target:?} is left at {name}");
        }
        // What was held before stays as it is.
        raw.cmd(&["ACL", "SETUSER", "locks", "+pexpire"]).await;
        assert!(matches!(acquire(2, SOON).await, Ok(AcquireReply::Granted(_))), "{target:?}");
        raw.cmd(&["ACL", "SETUSER", "locks", "-pexpire"]).await;
        acquire(2, SOON * 2).await.unwrap_err();
        let names = if target.members().is_empty() {
            vec![target.key().as_str()]
        } else {
            vec!["one", "two"]
        };
        for name in names {
            let left = raw.pttl(name).await;
            assert!(matches!(left, Ttl::Left(left) if left <= SOON), "{target:?}: {left:?}");
            // Nor does a waiter keep a place without an end.
            let owner = OwnerId::new("8f1c", 3, 1);
            let waits = AcquireRequest::new(target.clone(), owner, SOON, SOON);
            if matches!(target.kind(), HoldKind::Fair | HoldKind::Write) {
                let refused = store.acquire(waits.with_place(Some(SOON))).await.unwrap_err();
                assert_eq!(refused.kind(), StoreErrorKind::Denied, "{target:?}: {refused:?}");
                let keys = raw.keys().await;
                assert_eq!(
                    keys.len(),
                    2,
                    "{target:?}: more than the lock and its counter: {keys:?}"
                );
            }
        }
        raw.cmd(&["FLUSHDB"]).await;
    }
});
