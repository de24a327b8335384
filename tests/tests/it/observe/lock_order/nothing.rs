//! What the lock order leaves out.

use lock_runtime::scope;

use super::*;

/// The locks of a multi lock have no order among each other; others have one to each of them.
#[tokio::test]
async fn the_locks_of_a_multi_lock() {
    let (warnings, client) = (Warnings::start(), client());
    let other = LockClient::builder().lock_order(true).namespace("shop").in_memory().unwrap();
    for names in [["multi-a:1", "multi-b:1"], ["multi-b:2", "multi-a:2"]] {
        let both = client.multi_lock(names);
        both.run(nest(&client, &["multi-inner"])).await.unwrap();
        client.mutex("multi-outer").run(both.run(async {})).await.unwrap().unwrap();
        let joint =
            MultiLock::of([client.mutex(names[0]).into(), other.fair_mutex(names[1]).into()]);
        joint.run(nest(&client, &["multi-inner"])).await.unwrap();
    }
    assert_eq!(warnings.lines(), [""; 0]);
    let mut found =
        edges(&client.admin().lock_order(), &["multi-a", "multi-b", "multi-outer", "shop"]);
    found.sort();
    let [a, b, inner, outer] = ["multi-a", "multi-b", "multi-inner", "multi-outer"];
    assert_eq!(found, pairs([(a, inner), (b, inner), (outer, a), (outer, b)]));
}

#[tokio::test]
async fn a_re_entry() {
    let (warnings, client) = (Warnings::start(), client());
    nest(&client, &["again-a", "again-b", "again-a", "again-b"]).await;
    let (a, b) = (client.mutex("again-a"), client.mutex("again-b"));
    // Of a part of a multi lock, and beside another re-entry.
    let both = client.multi_lock(["again-a", "again-b"]);
    both.run(nest(&client, &["again-b", "again-a"])).await.unwrap();
    let beside = join_all([&b, &b, &a, &a].map(|lock| lock.run(tokio::task::yield_now())));
    for result in a.run(b.run(beside)).await.unwrap().unwrap() {
        result.unwrap();
    }
    assert_eq!(warnings.lines(), [""; 0]);
    let order = client.admin().lock_order();
    assert_eq!(edges(&order, &["again-a", "again-b"]), pairs([("again-a", "again-b")]));
    assert_eq!(order.edges.iter().find(|edge| edge.outer == "again-a").unwrap().times, 2);
}

#[tokio::test]
async fn shared_reads_and_a_read_inside_of_its_write() {
    let (warnings, client) = (Warnings::start(), client());
    let (a, b) = (client.rw_lock("read-a"), client.rw_lock("read-b"));
    for (outer, inner) in [(&a, &b), (&b, &a)] {
        let _outer = outer.read().await.unwrap();
        _outer.run(async { inner.read().await.map(drop) }).await.unwrap().unwrap();
    }
    let write = a.write().await.unwrap();
    write.run(async { a.read().await.map(drop) }).await.unwrap().unwrap();
    write.release().await.unwrap();
    assert_eq!(edges(&client.admin().lock_order(), &["read-a", "read-b"]), []);
    // With a writer on one side they wait for each other.
    for (outer, inner) in [(a.read(), b.write()), (b.read(), a.write())] {
        let outer = outer.await.unwrap();
        outer.run(async { inner.await.map(drop) }).await.unwrap().unwrap();
        outer.release().await.unwrap();
    }
    assert_eq!(warnings.lines().len(), 1);
}

#[tokio::test]
async fn an_acquire_that_does_not_wait() {
    let (warnings, client) = (Warnings::start(), client());
    nest(&client, &["try-a", "try-b"]).await;
    let (a, b) = (client.mutex("try-a"), client.mutex("try-b"));
    let tries = async {
        let tried = a.try_lock().await.unwrap().unwrap();
        let order = client.admin().lock_order();
        assert_eq!(edges(&order, &["try-a", "try-b"]), pairs([("try-a", "try-b")]));
        // Its hold counts around others.
        tried.run(nest(&client, &["try-c"])).await.unwrap();
    };
    b.run(tries).await.unwrap();
    b.run(async { a.clone().wait(Wait::None).lock().await.map(drop) }).await.unwrap().unwrap();
    assert_eq!(warnings.lines(), [""; 0]);
    let [a, b, c] = ["try-a", "try-b", "try-c"];
    assert_eq!(edges(&client.admin().lock_order(), &[a, b]), pairs([(a, b), (a, c), (b, c)]));
}

#[tokio::test]
async fn permits_and_latches() {
    let client = client();
    let permits = client.semaphore("none-permits", 2);
    let latch = client.latch("none-latch");
    let inside = async {
        drop(permits.acquire().await.unwrap());
        latch.reached().await
    };
    client.mutex("none-a").run(inside).await.unwrap().unwrap();
    permits.run(nest(&client, &["none-a"])).await.unwrap();
    assert_eq!(edges(&client.admin().lock_order(), &["none-a", "none-permits", "none-latch"]), []);
}

/// Nothing tells what is around a spawned task, or that a guard is kept; `inherit` does.
#[tokio::test]
async fn a_spawned_task_and_a_plain_guard() {
    let (warnings, client) = (Warnings::start(), client());
    nest(&client, &["spawn-a", "spawn-b"]).await;
    let spawned = |inner: BoxFuture<'static, ()>| async { lock_tests::spawn(inner).await.unwrap() };
    let acquire = || -> BoxFuture<'static, ()> {
        let lock = client.mutex("spawn-a");
        Box::pin(async move { lock.run(async {}).await.unwrap() })
    };
    client.mutex("spawn-b").run(async { spawned(acquire()).await }).await.unwrap();
    let guard = client.mutex("spawn-b").lock().await.unwrap();
    acquire().await;
    assert_eq!(warnings.lines(), [""; 0]);
    guard.run(async { spawned(Box::pin(scope::inherit(acquire()))).await }).await.unwrap();
    assert_eq!(warnings.lines().len(), 1);
}

/// A task that outlives its guard is not inside of that lock, also if another task has been handed the hold.
#[tokio::test]
async fn a_lock_that_was_released_or_handed_on() {
    let client = LockClient::builder().lock_order(true).handoff_window(SOON).in_memory().unwrap();
    let lock = client.mutex("over-a");
    for is_handed_on in [false, true] {
        let held = lock.lock().await.unwrap();
        // The second has a token to hand on for the third.
        let mut waiting = [(); 3].map(|()| Box::pin(lock.lock()));
        for waiter in &mut waiting {
            assert!(poll!(waiter).is_pending());
        }
        held.release().await.unwrap();
        let [second, third, fourth] = waiting;
        let second = second.await.unwrap();
        let [late] =
            second.run(async { [scope::inherit(nest(&client, &["over-b"]))] }).await.unwrap();
        let token = second.token().get();
        drop(fourth);
        let next = match is_handed_on {
            true => {
                second.release().await.unwrap();
                let third = third.await.unwrap();
                assert_eq!(third.token().get(), token + 1, "not handed on without the store");
                Some(third)
            }
            false => {
                drop(third);
                second.release().await.unwrap();
                None
            }
        };
        late.await;
        assert_eq!(edges(&client.admin().lock_order(), &["over-a"]), [], "{is_handed_on}");
        drop(next);
    }
}
