//! Redis commands under a hold: they run if the hold owns its lock on the server, and at no other time (S-37).

use lock_runtime::fence::{Fenced, RedisValue};
use lock_runtime::guard::LockWatch;
use tower::{Layer, ServiceExt, service_fn};

use crate::prelude::*;
use crate::support::kinds::take_one_or_several;
use crate::support::quorum::{quorum_of, servers};

/// All whose holds exclude others.
const EXCLUSIVE: [&str; 6] = ["mutex", "fair", "write", "multi", "several fair", "several write"];

async fn take_any(client: &LockClient, kind: &str) -> LockGuard {
    let taken = take_one_or_several(client, kind, kind, LockOptions::default());
    timeout(SOON, taken).await.expect("not free").unwrap()
}

/// The names of its locks.
fn names(guard: &LockGuard) -> Vec<String> {
    guard.fences().unwrap().names().map(ToString::to_string).collect()
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
    let (_server, client) = world().await;
    let guard = client.mutex("answers").lock().await.unwrap();
    let raw = b"\0\r\n\xff".to_vec();
    let stored = guard.redis("SET").key("raw").bytes(raw.clone()).run().await.unwrap();
    assert_eq!(stored, RedisValue::Status("OK".to_owned()));
    let read = guard.redis("GET").key("raw").run().await.unwrap();
    assert_eq!(read, RedisValue::Bytes(raw.clone()));
    assert!(guard.redis("GET").key("none").run().await.unwrap().is_nil());
    let set = guard.redis("HSET").key("stock").arg("7").arg(3).arg(8).arg(0.5);
    assert_eq!(set.run().await.unwrap().as_integer(), Some(2));
    let all = guard.redis("MGET").key("raw").key("none").key("raw").run().await.unwrap();
    let part = RedisValue::Bytes(raw);
    assert_eq!(all.as_array().unwrap(), [part.clone(), RedisValue::Nil, part]);
    let pairs = guard.redis("HGETALL").key("stock").run().await.unwrap();
    let pairs: Vec<_> = pairs.as_array().unwrap().iter().map(|part| part.as_str()).collect();
    assert_eq!(pairs, [Some("7"), Some("3"), Some("8"), Some("0.5")]);
    let empty = guard.redis("LRANGE").key("none").arg(0).arg(-1).run().await.unwrap();
    assert_eq!(empty, RedisValue::Array(Vec::new()));
    // A zero is not taken for the script's own.
    assert_eq!(guard.redis("EXISTS").key("none").run().await.unwrap(), RedisValue::Integer(0));
}

/// How a hold is lost without a word to its client.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lost {
    ByForce,
    /// As when the lease ends while the process stands still.
    ByExpiry,
    ToAnother,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_lost_writes_nothing() {
    let (server, client, other) = world_of_two().await;
    for (kind, lost) in EXCLUSIVE
        .into_iter()
        .flat_map(|kind| [Lost::ByForce, Lost::ByExpiry, Lost::ToAnother].map(|lost| (kind, lost)))
    {
        let what = format!("{kind} {lost:?}");
        let guard = take_any(&client, kind).await;
        // The last of several, so that each of them counts.
        let name = names(&guard).pop().unwrap();
        match lost {
            Lost::ByExpiry => {
                server.client().cmd(&["PEXPIRE", &name, "1"]).await;
                soon!("it has ended", !server.client().exists(&name).await);
            }
            _ => assert!(other.admin().force_release(&name).await.unwrap(), "{what}"),
        }
        let next = match lost {
            Lost::ToAnother => Some(other.mutex(&name).lock().await.unwrap()),
            _ => None,
        };
        assert!(!guard.is_lost(), "{what}: it knows already");
        assert_eq!(cause(set(&guard.watch(), &what).await), LossCause::NotOwner, "{what}");
        assert!(!server.client().exists(&what).await, "{what}: it wrote");
        assert!(guard.is_lost() && guard.watch().is_lost(), "{what}");
        assert_eq!(cause(set(&guard.watch(), &what).await), LossCause::NotOwner, "{what}");
        if let Some(next) = next {
            next.redis("SET").key(&what).arg("next").run().await.unwrap();
            next.release().await.unwrap();
        }
        drop(guard);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_writes_nothing_after_the_release() {
    let (server, client) = world().await;
    for kind in EXCLUSIVE {
        let guard = take_any(&client, kind).await;
        let made_before = guard.redis("SET").key("data").arg(1);
        let watch = guard.watch();
        guard.release().await.unwrap();
        assert_eq!(cause(set(&watch, "data").await), LossCause::Released, "{kind}");
        assert_eq!(cause(made_before.run().await), LossCause::Released, "{kind}");
        assert!(!server.client().exists("data").await, "{kind}");
    }
}

#[tokio::test]
async fn a_hold_that_does_not_exclude_is_refused() {
    let (server, client) = world().await;
    for kind in ["read", "semaphore"] {
        let guard = take_any(&client, kind).await;
        let error = set(&guard.watch(), "shared").await.unwrap_err();
        assert!(matches!(error, LockError::NotExclusive { .. }), "{error:?}");
        assert_eq!(error.key(), Some(kind));
        assert!(error.to_string().contains("does not exclude others"), "{error}");
    }
    assert!(!server.client().exists("shared").await);
}

/// A client behind a proxy that hands a hold on for as long as a test takes.
async fn handing_on() -> (RedisServer, Proxy, LockClient) {
    let (server, proxy) = proxied().await;
    let builder = LockClient::builder().handoff_window(SOON);
    let client = builder.connect(&proxy.url()).await.unwrap();
    (server, proxy, client)
}

/// A task that holds the lock and one that waits for it, behind it.
async fn two_in_line(client: &LockClient) -> (LockGuard, JoinHandle<LockGuard>) {
    let lock = client.mutex("line");
    // The first hold reserves no token for the second; the next one does.
    let before = lock.lock().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let mut waiter = Box::pin(lock.lock());
        assert!(poll!(&mut waiter).is_pending());
        tasks.push(waiter);
    }
    before.release().await.unwrap();
    let mut tasks = tasks.into_iter();
    let first = timeout(SOON, tasks.next().unwrap()).await.unwrap().unwrap();
    let second = tasks.next().unwrap();
    (first, lock_tests::spawn(async move { second.await.unwrap() }))
}

async fn owner_of(server: &RedisServer, name: &str) -> Vec<String> {
    server.client().hgetall(name).await.into_keys().collect()
}

/// S-14: the hold goes on as another task's, with the same owner on the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_was_handed_over_is_the_next_tasks() {
    let (server, _proxy, client) = handing_on().await;
    let (first, second) = two_in_line(&client).await;
    let (watch, owner) = (first.watch(), owner_of(&server, "line").await);
    first.redis("SET").key("by first").arg(1).run().await.unwrap();
    first.release().await.unwrap();
    let second = timeout(SOON, second).await.unwrap().unwrap();
    assert_eq!(owner_of(&server, "line").await, owner, "not handed over");
    assert_eq!(cause(set(&watch, "late").await), LossCause::Released);
    assert!(!server.client().exists("late").await);
    set(&second.watch(), "by second").await.unwrap();
    assert!(server.client().exists("by second").await);
    second.release().await.unwrap();
}

/// A command whose answer was lost is not sent again, and the next task of the process has another owner: what may still
/// be under way cannot pass for a command of that task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_neither_repeated_nor_handed_over() {
    let (server, proxy, client) = handing_on().await;
    let (first, second) = two_in_line(&client).await;
    let owner = owner_of(&server, "line").await;
    first.redis("SET").key("the script is loaded").arg(1).run().await.unwrap();
    proxy.drop_next_reply_to("counted");
    let error = first.redis("INCR").key("counted").run().await.unwrap_err();
    let (kind, sentence) = kind_and_sentence(error);
    assert_eq!(kind, StoreErrorKind::OutcomeUnknown, "{sentence}");
    assert!(sentence.contains("may or may not have run"), "{sentence}");
    assert_eq!(proxy.replies_dropped(), 1);
    // It goes on over the next connection.
    set(&first.watch(), "after").await.unwrap();
    let counted: u64 = server.client().get(&["GET", "counted"]).await;
    assert_eq!(counted, 1, "it was sent again");
    first.release().await.unwrap();
    let second = timeout(SOON, second).await.unwrap().unwrap();
    assert_ne!(owner_of(&server, "line").await, owner, "handed over");
    set(&second.watch(), "by second").await.unwrap();
    second.release().await.unwrap();
}

/// The same of a command whose future is dropped; its late arrival changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_command_that_comes_late_writes_nothing() {
    let (server, proxy, client) = handing_on().await;
    let (first, second) = two_in_line(&client).await;
    first.redis("SET").key("the script is loaded").arg(1).run().await.unwrap();
    proxy.keep_next_request_with("late");
    let watch = first.watch();
    let mut command = Box::pin(async move { set(&watch, "late").await });
    assert!(poll!(&mut command).is_pending());
    soon!("it is on its way", server.client().exists("late").await);
    drop(command);
    assert!(server.client().del("late").await);
    first.release().await.unwrap();
    let second = timeout(SOON, second).await.unwrap().unwrap();
    assert_eq!(proxy.deliver_kept().await, 1);
    assert!(!server.client().exists("late").await, "it ran as the next task's");
    set(&second.watch(), "by second").await.unwrap();
    second.release().await.unwrap();
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
    let (kind, sentence) = kind_and_sentence(many(4_000).run().await.unwrap_err());
    assert_eq!(kind, StoreErrorKind::Command);
    assert!(sentence.contains("4001 arguments, and 4000 are allowed"), "{sentence}");
    let big = guard.redis("SET").key("big").bytes(vec![b'x'; 4 << 20]);
    let (kind, sentence) = kind_and_sentence(big.run().await.unwrap_err());
    assert_eq!(kind, StoreErrorKind::Command);
    assert!(sentence.contains("4194307 bytes, and 4194304 are allowed"), "{sentence}");
    assert!(!server.client().exists("big").await);
    let own = guard.redis("SET").key("long").arg(1).run().await.unwrap_err();
    let (kind, sentence) = kind_and_sentence(own);
    assert_eq!(kind, StoreErrorKind::Command);
    assert!(sentence.contains("\"long\", which is the lock's own"), "{sentence}");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_stores_say_what_they_cannot() {
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    for client in [quorum, LockClient::in_memory()] {
        let guard = client.mutex("q").lock().await.unwrap();
        let error = set(&guard.watch(), "q-key").await.unwrap_err();
        let (kind, sentence) = kind_and_sentence(error);
        assert_eq!(kind, StoreErrorKind::Config);
        assert!(sentence.contains("need one Redis server"), "{sentence}");
        guard.release().await.unwrap();
    }
    let [one, other, _] = &servers[..] else { panic!("three") };
    let (one, other) = (connect(one).await, connect(other).await);
    let members = [MultiMember::from(one.mutex("m")), MultiMember::from(other.mutex("n"))];
    let guard = MultiLock::of(members).lock().await.unwrap();
    let (kind, sentence) = kind_and_sentence(set(&guard.watch(), "k").await.unwrap_err());
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(sentence.contains("several clients"), "{sentence}");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layers_hold_writes_until_it_is_released() {
    let (server, client) = world().await;
    let layer = lock_tower::LockLayer::new(client, |_: &u64| LockKey::new("layer").map(Some));
    let service = layer.layer(service_fn(|_: u64| async {
        let held = lock_tower::HeldLock::current().unwrap();
        held.redis("SET").key("in time").arg(1).run().await.unwrap();
        held.release().await.unwrap();
        Ok::<_, Infallible>(held.redis("SET").key("late").arg(1).run().await)
    }));
    assert_eq!(cause(service.oneshot(42).await.unwrap()), LossCause::Released);
    assert!(server.client().exists("in time").await);
    assert!(!server.client().exists("late").await);
}

/// A master that was demoted writes nothing, and says so; the hold goes on once there is a master again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_writes_nothing() {
    let (server, client) = world().await;
    let guard = client.mutex("stock").lock().await.unwrap();
    // No server listens on that port.
    server.client().cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let refused = guard.redis("SET").key("data").arg(1).run().await.unwrap_err();
    let (kind, sentence) = kind_and_sentence(refused);
    assert_eq!(kind, StoreErrorKind::NotReady, "{sentence}");
    assert!(!server.client().exists("data").await);
    server.client().cmd(&["REPLICAOF", "NO", "ONE"]).await;
    let set = async || guard.redis("SET").key("data").arg(1).run().await.is_ok();
    eventually(SOON, "the command runs", set).await;
    guard.release().await.unwrap();
}

/// How the tasks of a storm read and write.
#[derive(Clone, Copy, PartialEq)]
enum By {
    TheHold,
    /// As without a fence.
    Itself,
}

/// Increments a counter under a lock so many times, by reading and writing. Every third time the lock is taken away in
/// between, as from a process that stands still past its lease, and another holder increments the counter meanwhile. Returns
/// how many increments were confirmed, and how many writes were refused.
async fn increment(
    by: By,
    own: LockClient,
    thief: LockClient,
    raw: RawClient,
    times: u64,
) -> (u64, u64) {
    let read = async |guard: &LockGuard| match by {
        By::TheHold => {
            let seen = guard.redis("GET").key("counter").run().await?;
            Ok::<_, LockError>(seen.as_integer().unwrap_or(0))
        }
        By::Itself => Ok(raw.get::<Option<i64>>(&["GET", "counter"]).await.unwrap_or(0)),
    };
    let write = async |guard: &LockGuard, number: i64| match by {
        By::TheHold => guard.redis("SET").key("counter").arg(number).run().await.map(drop),
        By::Itself => {
            raw.cmd(&["SET", "counter", &number.to_string()]).await;
            Ok(())
        }
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

/// How many writes were confirmed, how many refused, and what the counter is.
async fn storm(by: By) -> (u64, u64, u64) {
    let (server, a, b) = world_of_two().await;
    // The tasks that wait for it hold a lock that is lost, and it waits for none of them.
    let thief = connect(&server).await;
    let tasks = (0..6).map(|n| {
        let own = if n % 2 == 0 { &a } else { &b };
        lock_tests::spawn(increment(by, own.clone(), thief.clone(), server.client(), 60))
    });
    let (mut confirmed, mut refused) = (0, 0);
    for task in joined(tasks.collect::<Vec<_>>()).await {
        (confirmed, refused) = (confirmed + task.0, refused + task.1);
    }
    (confirmed, refused, server.client().get(&["GET", "counter"]).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_confirmed_write_is_lost() {
    let (confirmed, refused, counter) = storm(By::TheHold).await;
    assert!(refused > 0, "no hold was late");
    assert_eq!(counter, confirmed);
}

/// The negative control.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_hold_confirmed_writes_are_lost() {
    let (confirmed, _, counter) = storm(By::Itself).await;
    assert!(counter < confirmed, "{counter} of {confirmed}: the storm was none");
}
