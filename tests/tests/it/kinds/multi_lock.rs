//! Several mutexes of one client as one (S-28).

use crate::prelude::*;

/// A server that knows the scripts, so that commands can be counted, and a client of it.
async fn world() -> (RedisServer, LockClient) {
    let (server, client) = crate::prelude::world().await;
    client.multi_lock(["warm", "up"]).lock().await.unwrap().release().await.unwrap();
    server.reset_stats().await;
    (server, client)
}

async fn scripts(server: &RedisServer) -> u64 {
    server.command_calls().await.get("evalsha").copied().unwrap_or_default()
}

fn would_deadlock(outcome: Result<lock_runtime::LockGuard, LockError>) -> bool {
    matches!(outcome, Err(LockError::WouldDeadlock { .. }))
}

/// S-28: one command takes all names, one frees them, in whatever order and however often named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_command_takes_all_and_one_frees_all() {
    let (server, client) = world().await;
    let raw = server.client();
    let guard = client.multi_lock(["c", "a", "b", "a"]).lock().await.unwrap();
    assert_eq!(guard.key().as_str(), "a + b + c");
    assert_eq!(scripts(&server).await, 1);
    let owners: Vec<BTreeMap<String, String>> =
        join_all(["a", "b", "c"].map(|name| raw.hgetall(name))).await;
    assert!(owners[0].len() == 1 && owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
    for name in ["a", "b", "c"] {
        assert!(matches!(raw.pttl(name).await, Ttl::Left(_)), "{name} has no end");
        // S-23: later holds of each name have higher tokens.
        let counter: String = raw.get(&["GET", &format!("redisson_lock_token:{{{name}}}")]).await;
        assert_eq!(counter, guard.token().to_string());
    }
    server.reset_stats().await;
    guard.release().await.unwrap();
    assert_eq!(scripts(&server).await, 1);
    for name in ["a", "b", "c", "a + b + c"] {
        assert!(!raw.exists(name).await, "{name} is left");
    }
}

/// S-28: all or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_taken_whole_is_not_taken_in_part() {
    let (server, client) = world().await;
    let other = connect(&server).await;
    let held = other.mutex("b").lock().await.unwrap();
    let both = client.multi_lock(["a", "b"]);
    assert!(both.try_lock().await.unwrap().is_none());
    assert!(!server.client().exists("a").await);
    // A waiter is told by either name, and holds nothing meanwhile.
    let waiter = lock_tests::spawn(async move { both.lock().await.unwrap() });
    server.wait_for_subscribers("redisson_lock__channel:{a}", 1).await;
    server.wait_for_subscribers("redisson_lock__channel:{b}", 1).await;
    other.mutex("a").lock().await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
    let guard = timeout(SOON, waiter).await.expect("not told").unwrap();
    assert!(other.mutex("a").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// S-6, S-28: what is inside of it is re-entry; wanting more than is held would wait for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_locks_are_re_entered_and_more_is_refused() {
    let (server, client) = world().await;
    let guard = client.multi_lock(["a", "b", "c"]).lock().await.unwrap();
    server.reset_stats().await;
    let token = guard.token();
    let inside = async {
        for names in [&["a"][..], &["c", "a"], &["a", "b", "c"]] {
            let nested = client.multi_lock(names.iter().copied()).lock().await.unwrap();
            assert_eq!(nested.token(), token);
        }
        assert_eq!(client.mutex("a").lock().await.unwrap().token(), token);
        assert!(would_deadlock(client.multi_lock(["a", "d"]).lock().await));
    };
    guard.run(inside).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(scripts(&server).await, 1, "only the release is sent");
    let guard = client.mutex("a").lock().await.unwrap();
    let inside = async {
        assert!(would_deadlock(client.multi_lock(["a", "b"]).lock().await));
        client.multi_lock(["a"]).lock().await.unwrap().release().await.unwrap();
        client.multi_lock(["b", "c"]).lock().await.unwrap().release().await.unwrap();
        // Outside of any single hold, though each name is held around it.
        let inner = client.mutex("b").lock().await.unwrap();
        let both = inner.run(client.multi_lock(["a", "b"]).lock()).await.unwrap();
        assert!(would_deadlock(both));
    };
    guard.run(inside).await.unwrap();
    guard.release().await.unwrap();
    // A plain guard gives no re-entry (S-7): the same set waits, and is not refused.
    let _guard = client.multi_lock(["a", "b"]).lock().await.unwrap();
    assert!(client.multi_lock(["b", "a"]).try_lock().await.unwrap().is_none());
}

/// S-14: tasks of one process that keep one of its names busy let a multi lock go first.
// In one thread: in several, the line goes on while the system lets this task's thread wait.
#[tokio::test]
async fn a_local_line_on_one_name_lets_it_in() {
    let (server, client) = world().await;
    let (done, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Of a fixed lease, so that each turn is a release in the store.
    let fixed = fixed(SOON);
    let line = [(); 4].map(|()| {
        let mutex = client.mutex("busy").with(fixed.clone());
        let (done, turns) = (Arc::clone(&done), Arc::clone(&turns));
        lock_tests::spawn(async move {
            while !done.load(Ordering::SeqCst) {
                let guard = mutex.lock().await.unwrap();
                turns.fetch_add(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        })
    });
    let mut waited = Vec::new();
    for _ in 0..30 {
        let before = turns.load(Ordering::SeqCst);
        let guard = timeout(SOON, client.multi_lock(["busy", "idle"]).lock()).await;
        let guard = guard.expect("never let in").unwrap();
        waited.push(turns.load(Ordering::SeqCst) - before);
        guard.release().await.unwrap();
    }
    // One turn, as a rule; thousands if it were not told, and came back by itself.
    assert!(waited.iter().all(|turns| *turns < 50), "{waited:?}");
    done.store(true, Ordering::SeqCst);
    joined(line).await;
    assert!(!server.client().exists("busy").await);
}

/// S-32: what is wrong is said when it is locked, and nothing is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_names_are_refused() {
    let (server, client) = world().await;
    let none = client.multi_lock(Vec::<&str>::new()).lock().await.unwrap_err();
    assert!(matches!(&none, LockError::InvalidOptions(_)), "{none:?}");
    assert!(none.to_string().contains("name at least one"), "{none}");
    let odd = client.multi_lock(["fine", "a{b"]).lock().await.unwrap_err();
    assert!(matches!(&odd, LockError::InvalidKey { key, .. } if key == "a{b"), "{odd:?}");
    server.client().cmd(&["SET", "text", "no lock"]).await;
    let taken = client.multi_lock(["fine", "text"]).lock().await.unwrap_err();
    let is_named = matches!(
        &taken,
        LockError::KeyCollision { key, found, .. } if key == "text" && found.contains("a string")
    );
    assert!(is_named, "{taken:?}");
    let fair = client.fair_mutex("queue").lock().await.unwrap();
    let taken = client.multi_lock(["fine", "queue"]).lock().await.unwrap_err();
    let text = taken.to_string();
    assert!(text.contains("\"queue\" cannot be a mutex: the key holds a fair mutex"), "{text}");
    fair.release().await.unwrap();
    assert!(!server.client().exists("fine").await);
    // Different sets are different locks, whatever the names look like.
    let one = client.multi_lock(["a + b", "c"]).lock().await.unwrap();
    let other = timeout(SOON, client.multi_lock(["a", "b + c"]).lock()).await;
    other.expect("taken for the same").unwrap().release().await.unwrap();
    one.release().await.unwrap();
}
