//! Names that look like something else: hash tags, patterns, commands, paths, other locks' keys.

use std::collections::BTreeSet;

use lock_runtime::store::MemoryStore;
use lock_runtime::{LockError, LockGuard, LockKey};

use super::*;

/// Values that an attacker sends in place of an order number.
fn hostile() -> Vec<String> {
    let words = r"a A { } {} {a} {{a}} }{ a{b a}b {a}{b} {a}:timeout * a* ? a? [a-z] [^a] \ a\*
        % %00 %7B %~ %~0123456789abcdef0123456789abcdef : a: :a a:b .. ../a / ä 🔒 null
        redisson_lock_token:{a} redisson_lock_queue:{a} redisson_lock__channel:{a}
        ${jndi:ldap://x} <script> -1 0 +1";
    let spaced = "| |\n|a\nb|\r\n|a\r\nSET b 1\r\n|\0|a\0|a\0b|\t|\u{7f}|\u{85}|\u{2028}|\u{200b}|\u{202e}a|\u{feff}a|\
        a\u{308}|a + b|a ++ b|'; DROP TABLE locks; --|return redis.call('FLUSHALL')";
    let long = [511, 512, 513, 1 << 20];
    let words = words.split_whitespace().chain(spaced.split('|')).map(str::to_owned);
    words.chain(long.map(|length| "x".repeat(length))).chain(["{".repeat(1 << 20)]).collect()
}

/// Two processes: over Redis, and in memory.
async fn worlds() -> (RedisServer, [[LockClient; 2]; 2]) {
    let server = RedisServer::start().await;
    let store = MemoryStore::new();
    let memory = || LockClient::builder().store(store.peer()).unwrap();
    let redis = [connect(&server).await, connect(&server).await];
    let memory = [memory(), memory()];
    (server, [redis, memory])
}

/// The refusal of a name: it says so in one short line, without the control characters of the name.
fn refused(outcome: Result<LockGuard, LockError>, name: &str) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{name:.40?}: {error:.200?}");
    let said = error.to_string();
    assert!(said.len() < 600 && !said.chars().any(char::is_control), "{said:?}");
}

/// S-1, S-2: a name is refused before anything is sent, or is a lock of its own, at the same time as all the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_refused_or_a_lock_of_its_own() {
    watch_panics();
    let (server, worlds) = worlds().await;
    let mut keys = BTreeSet::new();
    for [client, other] in &worlds {
        let mut held = Vec::new();
        for name in &hostile() {
            match LockKey::new(name) {
                Err(_) => {
                    refused(client.mutex(name).lock().await, name);
                    refused(client.fair_mutex(name).lock().await, name);
                    refused(client.rw_lock(name).write().await, name);
                    let permit = client.semaphore(name, 1).acquire().await;
                    refused(permit, name);
                    refused(client.multi_lock(["b", name]).lock().await, name);
                    assert!(client.latch(name).count_down().await.is_err(), "{name:.40?}");
                    assert!(client.admin().inspect(name).await.is_err(), "{name:.40?}");
                    assert!(client.admin().force_release(name).await.is_err(), "{name:.40?}");
                    let namespaced = LockClient::builder().namespace(name).in_memory();
                    assert!(namespaced.is_err(), "{name:.40?}");
                }
                Ok(_) => {
                    let guard = client.mutex(name).with(waits(SOON)).lock().await;
                    held.push((name.clone(), guard.unwrap()));
                    keys.insert(name.clone());
                }
            }
        }
        // Each is busy for the other process, and none but itself is freed by its release.
        while let Some((name, guard)) = held.pop() {
            assert!(other.mutex(&name).try_lock().await.unwrap().is_none(), "{name:.40?}");
            guard.release().await.unwrap();
            let free = other.mutex(&name).with(waits(SOON)).lock().await.unwrap();
            free.release().await.unwrap();
            for (others, guard) in &held {
                assert!(!guard.is_lost(), "{others:.40?} went with {name:.40?}");
            }
        }
        assert!(keys.len() > 30, "only {} names are valid", keys.len());
    }
    // Nothing but the counters of these names.
    let counter = |name: &String| match name.contains('{') {
        true => format!("redisson_lock_token:{name}"),
        false => format!("redisson_lock_token:{{{name}}}"),
    };
    let expected: BTreeSet<_> = keys.iter().map(counter).collect();
    let found: BTreeSet<_> = server.client().keys().await.into_iter().collect();
    assert_eq!(found, expected);
    no_panics();
}

/// S-2: as for Redisson, `x` and `{x}` have one set of companion keys. They can delay each other, and no more: each is
/// held on its own, and no semaphore grants more than its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bare_hash_tag_at_most_delays_its_namesake() {
    watch_panics();
    let server = RedisServer::start().await;
    let [client, other] = [connect(&server).await, connect(&server).await];
    for kind in ["mutex", "fair", "write"] {
        let take = async |client: &LockClient, name: &str| match kind {
            "mutex" => client.mutex(name).try_lock().await.unwrap(),
            "fair" => client.fair_mutex(name).try_lock().await.unwrap(),
            _ => client.rw_lock(name).try_write().await.unwrap(),
        };
        let [plain, tagged] = ["x", "{x}"];
        let (one, two) = (take(&client, plain).await.unwrap(), take(&other, tagged).await.unwrap());
        assert!(take(&other, plain).await.is_none() && take(&client, tagged).await.is_none());
        assert_ne!(one.token(), two.token(), "{kind}");
        one.release().await.unwrap();
        assert!(!two.is_lost());
        assert!(take(&client, tagged).await.is_none(), "{kind}: freed with its namesake");
        two.release().await.unwrap();
    }
    let limit = 2;
    let [plain, tagged] = ["p", "{p}"].map(|name| client.semaphore(name, limit));
    let mut permits = Vec::new();
    for semaphore in [&plain, &tagged, &plain, &tagged, &plain, &tagged] {
        permits.extend(semaphore.try_acquire().await.unwrap());
    }
    assert!(permits.len() >= 2, "each has two, if no client has the other's");
    for permit in permits {
        permit.release().await.unwrap();
    }
    let mut again = Vec::new();
    for _ in 0..4 {
        again.extend(plain.try_acquire().await.unwrap());
    }
    assert_eq!(again.len(), 2, "the limit of one after both were in use");
    no_panics();
}
