//! Redis commands under a hold: they run if the hold owns its lock on the server, and at no other time (S-37).

use lock_runtime::fence::{Fenced, RedisValue};
use lock_runtime::guard::LockWatch;

use crate::prelude::*;
use crate::support::kinds::take_one_or_several;
use crate::support::quorum::{quorum_of, servers};

/// All whose holds exclude others.
const EXCLUSIVE: [&str; 6] = ["mutex", "fair", "write", "multi", "several fair", "several write"];

async fn take_any(client: &LockClient, kind: &str) -> LockGuard {
    let taken = take_one_or_several(client, kind, kind, LockOptions::default());
    timeout(SOON, taken).await.expect("not free").unwrap()
}

async fn set(watch: &LockWatch, key: &str) -> Result<RedisValue, LockError> {
    watch.redis("SET").key(key).arg("written").run().await
}

fn cause(result: Result<RedisValue, LockError>) -> LossCause {
    match result {
        Err(LockError::Lost { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_owns_its_locks_writes() {
    let (server, client) = world().await;
    for kind in EXCLUSIVE {
        let guard = take_any(&client, kind).await;
        let data = format!("{kind} data");
        assert_eq!(set(&guard.watch(), &data).await.unwrap().as_str(), Some("OK"), "{kind}");
        let inside = guard.run(async {
            let again = take_any(&client, kind).await;
            assert_eq!(again.token(), guard.token(), "{kind}: no re-entry");
            let count = again.redis("INCR").key(format!("{kind} count")).run().await.unwrap();
            let current = LockGuard::current().unwrap();
            again.release().await.unwrap();
            (count, current.redis("INCR").key(format!("{kind} count")).run().await.unwrap())
        });
        let (first, second) = inside.await.unwrap();
        assert_eq!((first, second), (RedisValue::Integer(1), RedisValue::Integer(2)), "{kind}");
        guard.release().await.unwrap();
        let written: String = server.client().get(&["GET", &data]).await;
        assert_eq!(written, "written", "{kind}");
    }
}

#[tokio::test]
async fn answers_are_what_the_server_says() {
    use RedisValue::{Array, Bytes, Integer, Nil};

    let (_server, client) = world().await;
    let guard = client.mutex("answers").lock().await.unwrap();
    let raw = b"\0\r\n\xff".to_vec();
    let text = |text: &str| Bytes(text.as_bytes().to_vec());
    for (command, answer) in [
        (guard.redis("SET").key("raw").bytes(raw.clone()), RedisValue::Status("OK".to_owned())),
        (guard.redis("GET").key("raw"), Bytes(raw.clone())),
        (guard.redis("GET").key("none"), Nil),
        (guard.redis("HSET").key("stock").arg("7").arg(3).arg(8).arg(0.5), Integer(2)),
        (
            guard.redis("MGET").key("raw").key("none").key("raw"),
            Array(vec![Bytes(raw.clone()), Nil, Bytes(raw)]),
        ),
        (guard.redis("HGETALL").key("stock"), Array(["7", "3", "8", "0.5"].map(text).to_vec())),
        (guard.redis("LRANGE").key("none").arg(0).arg(-1), Array(Vec::new())),
        // A zero is not taken for the script's own.
        (guard.redis("EXISTS").key("none"), Integer(0)),
    ] {
        let asked = format!("{command:?}");
        assert_eq!(command.run().await.unwrap(), answer, "{asked}");
    }
    let none = guard.redis("MGET").key("none").run().await.unwrap();
    assert!(none.as_array().unwrap()[0].is_nil());
}

/// A hold that is lost without a word to its client: its lease has ended, as while the process stands still, or it was freed
/// by force, and another may have the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_lost_writes_nothing() {
    let (server, client, other) = world_of_two().await;
    let raw = server.client();
    for kind in EXCLUSIVE {
        for lost in ["by expiry", "by force", "to another"] {
            let what = format!("{kind} {lost}");
            let guard = take_any(&client, kind).await;
            // The last of several, so that each of them counts.
            let name = guard.fences().unwrap().names().last().unwrap().to_string();
            if lost == "by expiry" {
                raw.cmd(&["PEXPIRE", &name, "1"]).await;
                soon!("it has ended", !raw.exists(&name).await);
            } else {
                assert!(other.admin().force_release(&name).await.unwrap(), "{what}");
            }
            let next = match lost {
                "to another" => Some(other.mutex(&name).lock().await.unwrap()),
                _ => None,
            };
            assert!(!guard.is_lost(), "{what}: it knows already");
            for _ in 0..2 {
                assert_eq!(cause(set(&guard.watch(), &what).await), LossCause::NotOwner, "{what}");
            }
            assert!(!raw.exists(&what).await, "{what}: it wrote");
            assert!(guard.is_lost() && guard.watch().is_lost(), "{what}");
            if let Some(next) = next {
                set(&next.watch(), &what).await.unwrap();
                next.release().await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_writes_nothing_after_the_release_nor_for_a_hold_that_does_not_exclude() {
    let (server, client) = world().await;
    for kind in EXCLUSIVE {
        let guard = take_any(&client, kind).await;
        let made_before = guard.redis("SET").key("data").arg(1);
        let watch = guard.watch();
        guard.release().await.unwrap();
        assert_eq!(cause(set(&watch, "data").await), LossCause::Released, "{kind}");
        assert_eq!(cause(made_before.run().await), LossCause::Released, "{kind}");
    }
    for kind in ["read", "semaphore"] {
        let guard = take_any(&client, kind).await;
        let error = set(&guard.watch(), "data").await.unwrap_err();
        assert!(matches!(error, LockError::NotExclusive { .. }), "{error:?}");
        assert_eq!(error.key(), Some(kind));
        assert!(error.to_string().contains("does not exclude others"), "{error}");
    }
    assert!(!server.client().exists("data").await);
}

async fn owner_of(server: &RedisServer, name: &str) -> Vec<String> {
    server.client().hgetall(name).await.into_keys().collect()
}

/// A command whose answer was lost is not sent again, and one that is dropped may come late. The next task of the process has
/// another owner, so that neither can pass for a command of that task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_without_an_answer_is_neither_repeated_nor_handed_over() {
    let (server, proxy) = proxied().await;
    let raw = server.client();
    let builder = LockClient::builder().handoff_window(SOON);
    let lock = builder.connect(&proxy.url()).await.unwrap().mutex("line");
    for dropped in [false, true] {
        // The first hold reserves no token for the second; the next one does.
        let before = lock.lock().await.unwrap();
        let [mut first, mut second] = [Box::pin(lock.lock()), Box::pin(lock.lock())];
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        before.release().await.unwrap();
        let first = timeout(SOON, first).await.unwrap().unwrap();
        let second = lock_tests::spawn(second);
        let owner = owner_of(&server, "line").await;
        set(&first.watch(), "the script is loaded").await.unwrap();
        if dropped {
            proxy.keep_next_request_with("late");
            let watch = first.watch();
            let mut command = Box::pin(async move { set(&watch, "late").await });
            assert!(poll!(&mut command).is_pending());
            soon!("it is on its way", raw.exists("late").await);
            drop(command);
            assert!(raw.del("late").await);
        } else {
            proxy.drop_next_reply_to("counted");
            let error = first.redis("INCR").key("counted").run().await.unwrap_err();
            let (kind, sentence) = kind_and_sentence(error);
            assert_eq!(kind, StoreErrorKind::OutcomeUnknown, "{sentence}");
            assert!(sentence.contains("may or may not have run"), "{sentence}");
            assert_eq!(proxy.replies_dropped(), 1);
            // It goes on over the next connection.
            set(&first.watch(), "after").await.unwrap();
            assert_eq!(raw.get::<u64>(&["GET", "counted"]).await, 1, "it was sent again");
        }
        first.release().await.unwrap();
        let second = timeout(SOON, second).await.unwrap().unwrap().unwrap();
        assert_ne!(owner_of(&server, "line").await, owner, "handed over");
        if dropped {
            assert_eq!(proxy.deliver_kept().await, 1);
            assert!(!raw.exists("late").await, "it ran as the next task's");
        }
        set(&second.watch(), "by second").await.unwrap();
        second.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_command_is_told_in_the_servers_words() {
    use StoreErrorKind::{Command, Denied, WrongType};

    let (server, client) = world().await;
    let raw = server.client();
    raw.cmd(&["SET", "text", "t"]).await;
    let guard = client.mutex("errors").lock().await.unwrap();
    for (command, expected, words) in [
        (guard.redis("HSET").key("text").arg(1).arg(2), WrongType, "wrongtype operation against"),
        (guard.redis("INCR").key("text"), Command, "not an integer"),
        (guard.redis("NOSUCH").key("text"), Command, "unknown"),
        (guard.redis("GET"), Command, "wrong number of args"),
        (guard.redis("SUBSCRIBE").arg("c"), Command, "not allowed from script"),
        (guard.redis("BLPOP").key("list").arg(0), Command, "not allowed from script"),
        (guard.redis(""), Command, "unknown"),
    ] {
        let asked = format!("{command:?}");
        let (kind, sentence) = kind_and_sentence(command.run().await.unwrap_err());
        assert_eq!(kind, expected, "{asked}: {sentence}");
        // Servers differ in capitals.
        assert!(sentence.to_lowercase().contains(words), "{asked}: {sentence}");
        assert!(sentence.starts_with("the server refused "), "{sentence}");
    }
    let user = ["ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-incr"];
    raw.cmd(&user).await;
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
    let limited = LockClient::connect(&url).await.unwrap();
    let held = limited.mutex("rights").lock().await.unwrap();
    let denied = held.redis("INCR").key("n").run().await.unwrap_err();
    let (kind, sentence) = kind_and_sentence(denied);
    assert_eq!(kind, Denied, "{sentence}");
    assert!(sentence.contains("incr") || sentence.contains("can't run"), "{sentence}");
    // No lock is lost by it.
    for guard in [guard, held] {
        set(&guard.watch(), "goes on").await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_meant_is_not_sent() {
    let (server, client) = world().await;
    let guard = client.mutex("long").lock().await.unwrap();
    let many = |args| (0..args).fold(guard.redis("RPUSH").key("list"), |all, n| all.arg(n));
    assert_eq!(many(3_999).run().await.unwrap().as_integer(), Some(3_999));
    let big = guard.redis("SET").key("big").bytes(vec![b'x'; 4 << 20]);
    for (command, says) in [
        (many(4_000), "4001 arguments, and 4000 are allowed"),
        (big, "4194307 bytes, and 4194304 are allowed"),
        (guard.redis("SET").key("long").arg(1), "\"long\", which is the lock's own"),
    ] {
        let (kind, sentence) = kind_and_sentence(command.run().await.unwrap_err());
        assert_eq!(kind, StoreErrorKind::Command);
        assert!(sentence.contains(says), "{sentence}");
    }
    assert!(!server.client().exists("big").await);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_stores_say_what_they_cannot() {
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    let (one, other) = (connect(&servers[0]).await, connect(&servers[1]).await);
    let joint = MultiLock::of([one.mutex("m").into(), other.mutex("n").into()]);
    let memory = LockClient::in_memory();
    for (guard, says) in [
        (quorum.mutex("q").lock().await, "need one Redis server"),
        (memory.mutex("q").lock().await, "need one Redis server"),
        (joint.lock().await, "several clients"),
    ] {
        let guard = guard.unwrap();
        let (kind, sentence) = kind_and_sentence(set(&guard.watch(), "k").await.unwrap_err());
        assert_eq!(kind, StoreErrorKind::Config);
        assert!(sentence.contains(says), "{sentence}");
    }
}

/// Increments a counter under a lock so many times, by reading and writing. Every third time the lock is taken away in
/// between, as from a process that stands still past its lease, and another holder increments the counter meanwhile. Returns
/// how many increments were confirmed, and how many writes were refused.
async fn increment(own: LockClient, thief: LockClient, times: u64) -> (u64, u64) {
    let read = async |guard: &LockGuard| {
        let seen = guard.redis("GET").key("counter").run().await?;
        Ok::<_, LockError>(seen.as_integer().unwrap_or(0))
    };
    let write = async |guard: &LockGuard, number: i64| {
        guard.redis("SET").key("counter").arg(number).run().await.map(drop)
    };
    let (mut confirmed, mut refused) = (0, 0);
    for time in 0..times {
        for attempt in 0_u32.. {
            let guard = own.mutex("storm").lock().await.unwrap();
            let Ok(seen) = read(&guard).await else { continue };
            if time % 3 == 0 && attempt == 0 {
                thief.admin().force_release("storm").await.unwrap();
                let next = thief.mutex("storm").lock().await.unwrap();
                if let Ok(seen) = read(&next).await
                    && write(&next, seen + 1).await.is_ok()
                {
                    confirmed += 1;
                }
            }
            match write(&guard, seen + 1).await {
                Ok(()) => {
                    confirmed += 1;
                    break;
                }
                Err(LockError::Lost { .. }) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    (confirmed, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_confirmed_write_is_lost() {
    let (server, a, b) = world_of_two().await;
    // The tasks that wait for it hold a lock that is lost, and it waits for none of them.
    let thief = connect(&server).await;
    let tasks = (0..6).map(|n| {
        let own = if n % 2 == 0 { &a } else { &b };
        lock_tests::spawn(increment(own.clone(), thief.clone(), 60))
    });
    let counts = joined(tasks.collect::<Vec<_>>()).await;
    let (confirmed, refused) =
        counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(refused > 0, "no hold was late");
    assert_eq!(server.client().get::<u64>(&["GET", "counter"]).await, confirmed);
}
