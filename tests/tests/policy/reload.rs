//! A reload is an atomic swap: what is held keeps its lease, what waits goes on, nothing is lost.

use super::*;
use lock_runtime::__layer_v1::in_effect;
use lock_runtime::LockClientBuilder;

const BOUND: Duration = secs(60);

const ONE: &str = "[lock]\nnamespace = 'shop'\n[lock.policies.p]\nmax_hold = '1m'";

/// Does not mix with it: each alone is valid, the limit of one with the lease of the other is not.
const OTHER: &str = "[lock]\nnamespace = 'shop'\n[lock.defaults]\nlease = '20s'\n[lock.policies.p]";

/// A client that starts with the first, and whose own lease is short.
fn builder() -> LockClientBuilder {
    let options = LockOptions::new().lease(Lease::Watchdog(secs(2)));
    LockClient::builder().options(options).config(read(ONE).unwrap())
}

/// A policy is of one configuration, with its defaults.
#[test]
fn a_policy_is_of_one_configuration() {
    let client = builder().in_memory().unwrap();
    let before = client.policy("p").unwrap();
    client.reload(read(OTHER).unwrap()).unwrap();
    let after = client.policy("p").unwrap();
    assert_eq!((before.max_hold, before.lease), (Some(secs(60)), None));
    assert_eq!((after.max_hold, after.lease), (None, Some(Lease::Fixed(secs(20)))));
}

/// Clones share it, and locks that are made from here on follow it, those without a policy too.
#[tokio::test]
async fn a_reload_is_seen_by_all_clones() {
    let client = builder().in_memory().unwrap();
    let clone = client.clone();
    let guard = client.mutex("a").lock().await.unwrap();
    let old = clone.mutex("a");
    let next = "[lock.defaults]\nwait = 'none'\n[lock.policies.q]";
    client.reload(read(next).unwrap()).unwrap();
    assert_eq!(in_effect(&clone.options()).wait, Wait::None);
    assert!(clone.mutex("a").lock().await.unwrap_err().is_busy());
    assert!(clone.policy("q").is_ok());
    assert!(matches!(clone.policy("p"), Err(LockError::UnknownPolicy { .. })));
    // The namespace stays, and a lock that was made before waits as it was told to.
    assert!(timeout(ms(50), old.lock()).await.is_err());
    assert_eq!(guard.key().as_str(), "shop:a");
    guard.release().await.unwrap();
    client.mutex("a").lock().await.unwrap().release().await.unwrap();
}

/// Another namespace would give the same locks other names. A file may leave the line out and have it again; and it may say
/// what the program has said.
#[test]
fn another_namespace_is_refused() {
    let by_program = LockClient::builder().namespace("shop").config(read("[lock]").unwrap());
    for client in [builder().in_memory().unwrap(), by_program.in_memory().unwrap()] {
        for text in ["[lock]", ONE] {
            client.reload(read(text).unwrap()).unwrap();
        }
        let error = client.reload(read("[lock]\nnamespace = 'store'").unwrap()).unwrap_err();
        let says = "lock.namespace: is \"store\" and was \"shop\", so the same locks would have other names; start a new client \
                    for it";
        assert_eq!(error.to_string(), says);
        assert!(client.policy("p").is_ok(), "the old one stays");
    }
    assert!(LockClient::in_memory().reload(read(ONE).unwrap()).is_err());
}

fn of_kind(kind: &str, wait: &str) -> LockConfig {
    read(&format!("[lock.policies.p]\nkind = '{kind}'\nwait = '{wait}'")).unwrap()
}

/// While a call of this process holds the lock as the kind that its policy had, a call with the new kind finds it busy.
async fn the_old_kind_is_busy(client: &LockClient, peer: &LockClient) {
    let kinds = ["mutex", "fair", "read", "write", "semaphore(2)"];
    let pairs = kinds.iter().flat_map(|old| kinds.iter().map(move |new| (*old, *new)));
    for (old, new) in pairs.filter(|(old, new)| old != new && (*old, *new) != ("write", "read")) {
        let name = format!("{old}-{new}");
        let lock = || client.policy_lock("p", [name.as_str()]);
        let log = Log::start_at(tracing::Level::WARN);
        client.reload(of_kind(old, "none")).unwrap();
        let held = lock().lock().await.unwrap();
        client.reload(of_kind(new, "none")).unwrap();
        let told = log.lines_with("the kind of a lock policy was").pop().unwrap_or_default();
        assert!(told.contains("WARN") && told.contains("lock.policy=\"p\""), "{name}: {told}");
        let refused = lock().lock().await;
        let error = refused.expect_err(&name);
        assert!(error.is_busy(), "{name}: {error}");

        client.reload(of_kind(new, "forever")).unwrap();
        let waiting = lock();
        let mut waits = std::pin::pin!(waiting.lock());
        assert!(timeout(ms(300), &mut waits).await.is_err(), "{name}");
        held.release().await.unwrap();
        let outcome = timeout(BOUND, waits).await.expect(&name);
        if old.starts_with("semaphore") {
            // A semaphore keeps its limit at the name, so the wait ends as for any other data there.
            assert!(matches!(outcome, Err(LockError::KeyCollision { .. })), "{name}: {outcome:?}");
        } else {
            outcome.expect(&name).release().await.unwrap();
        }
    }

    // Of another process it is another kind, and no wait ends that.
    client.reload(of_kind("write", "none")).unwrap();
    let theirs = peer.mutex("theirs").lock().await.unwrap();
    let error = client.policy_lock("p", ["theirs"]).lock().await.unwrap_err();
    assert!(matches!(error, LockError::KeyCollision { .. }), "{error}");
    theirs.release().await.unwrap();
    // So are two kinds in the code.
    let log = Log::start_at(tracing::Level::WARN);
    let held = client.mutex("code").lock().await.unwrap();
    let error = client.policy_lock("p", ["code"]).lock().await.unwrap_err();
    assert!(matches!(error, LockError::KeyCollision { .. }), "{error}");
    assert_eq!(log.text(), "");
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_held_as_the_kind_before_a_reload_is_busy() {
    let (server, store) = (RedisServer::start().await, MemoryStore::new());
    let builder = || LockClient::builder().config(of_kind("mutex", "none"));
    let peer = LockClient::builder().store(store.peer()).unwrap();
    the_old_kind_is_busy(&builder().store(store).unwrap(), &peer).await;
    let client = builder().connect(&server.url()).await.unwrap();
    the_old_kind_is_busy(&client, &LockClient::connect(&server.url()).await.unwrap()).await;
}
