//! No lock has the name of a key that belongs to another lock (S-2, S-32).

use crate::prelude::*;

/// Names that another lock may have as a key or a channel of its own.
const RESERVED: [&str; 18] = [
    "redisson_lock_token:{x}",
    "redisson_lock_token:order:{42}",
    "redisson_lock_token:x",
    "redisson_lock_queue:{x}",
    "redisson_lock_timeout:{x}",
    "redisson_lock__channel:{x}",
    "redisson_lock__channel:{x}:3b241101-e2bb-4255-8caf-4136c566a962:57",
    "redisson_unlock_latch:{x}:0123456789abcdef0123456789abcdef",
    "redisson_rwlock:{x}",
    "redisson_rwlock_writers:{x}",
    "redisson_rwlock_readers:{x}",
    "redisson_rwlock_due_readers:{x}",
    "redisson_sc:{x}",
    "redisson_countdownlatch__channel__{x}",
    "redisson_countdownlatch__channel:{x}",
    "{x}:timeout",
    "order:{42}:timeout",
    "{x}:3b241101-e2bb-4255-8caf-4136c566a962:57:rwlock_timeout:1",
];

fn is_refused<T>(outcome: &Result<T, LockError>, name: &str) -> bool {
    let reserved = "reserved for the keys of other locks";
    matches!(outcome, Err(LockError::InvalidKey { key, problem, .. })
        if key.starts_with(name.split('-').next().unwrap()) && problem.contains(reserved))
}

/// S-1: as whatever kind, and for whoever looks; the sentence says what to do.
#[tokio::test]
async fn a_companions_name_is_refused() {
    let client = LockClient::builder().store(MemoryStore::new()).unwrap();
    for name in RESERVED {
        assert!(is_refused(&LockKey::new(name), name), "{name}");
        assert!(is_refused(&LockKey::builder().text(name).build(), name), "{name}");
        for (kind, _) in KINDS {
            let outcome = take(&client, kind, name, LockOptions::default()).await;
            assert!(is_refused(&outcome, name), "{name} as {kind}: {outcome:?}");
        }
        assert!(is_refused(&client.multi_lock(["a", name]).lock().await, name), "{name}");
        assert!(is_refused(&client.latch(name).count().await, name), "{name}");
        assert!(is_refused(&client.admin().inspect(name).await, name), "{name}");
        assert!(is_refused(&client.admin().force_release(name).await, name), "{name}");
    }
    let others = "redisson_lock_tokens redisson redisson_lock_token my:redisson_lock_token:{x} x:timeout \
                  timeout {x}:timeouts {x:timeout} x:rwlock_timeout:1 redisson_sc";
    for name in others.split(' ') {
        client.mutex(name).lock().await.unwrap().release().await.unwrap();
    }
    for (name, advice) in [
        ("redisson_lock_token:{x}", "put text or a namespace in front of it"),
        ("a{x}:timeout", "choose another ending"),
    ] {
        let problem = LockKey::new(name).unwrap_err().to_string();
        assert!(problem.ends_with(advice), "{problem}");
    }
}

#[tokio::test]
async fn a_namespace_makes_a_prefix_a_name() {
    let shop = LockClient::builder().namespace("shop").store(MemoryStore::new()).unwrap();
    for name in RESERVED {
        let outcome = shop.mutex(name).try_lock().await;
        // An ending stays one.
        let ending = name.contains(":timeout") || name.contains("rwlock_timeout");
        assert_eq!(outcome.is_err(), ending, "{name}: {outcome:?}");
        let outcome = shop.multi_lock([name, "b"]).try_lock().await;
        assert_eq!(outcome.is_err(), ending, "{name}: {outcome:?}");
    }
    for namespace in ["redisson_lock_token", "redisson_lock_queue", "redisson_sc"] {
        let outcome = LockClient::builder().namespace(namespace).store(MemoryStore::new());
        assert!(is_refused(&outcome.map(drop), namespace), "{namespace}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_beside_a_lock_is_reserved() {
    let (server, holder, other) = world_of_two().await;
    let raw = server.client();
    let never = waits(Wait::Forever);
    let (mut guards, mut waiters) = (Vec::new(), Vec::new());
    let mut names = vec!["latch".to_owned()];
    holder.latch("latch").try_set_count(1).await.unwrap();
    for (kind, _) in KINDS {
        for name in [kind.to_owned(), format!("a:{{{kind}}}")] {
            guards.push(take(&holder, kind, &name, never.clone()).await.unwrap());
            let (other, name_of, never) = (other.clone(), name.clone(), never.clone());
            let wanted = if kind == "read" { "write" } else { kind };
            let waiting = async move { take(&other, wanted, &name_of, never).await.map(drop) };
            waiters.push(lock_tests::spawn(waiting));
            names.push(name);
        }
    }
    // A lock and its counter each; queues and their time-outs, announced writers, time-outs of readers, permits.
    let expected = 1 + 10 + 10 + 2 * (2 + 2 + 1 + 1);
    soon!("all are there", raw.keys().await.len() == expected);
    for key in raw.keys().await {
        assert_eq!(LockKey::new(&key).is_ok(), names.contains(&key), "{key}");
    }
    soon!("all waiters listen", raw.lock_channels().await.len() >= 10);
    for channel in raw.lock_channels().await {
        assert!(LockKey::new(&channel).is_err(), "{channel}");
    }
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}
