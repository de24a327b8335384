//! Re-entry follows the call path (S-6, S-7).

use std::cell::Cell;

use lock_runtime::scope;

use crate::contract::world::*;

/// S-6, S-23: at any depth, with the same token, and without a round trip.
pub(crate) async fn an_enclosed_acquire_re_enters(world: &World) {
    let client = world.client().await;
    let outer = client.mutex("n").lock().await.unwrap();
    let inside = async {
        for _ in 0..3 {
            let nested = client.mutex("n").lock().await.unwrap();
            assert_eq!(nested.token(), outer.token());
            let deeper = async { client.mutex("n").lock().await.unwrap().release().await };
            nested.run(deeper).await.unwrap().unwrap();
            nested.release().await.unwrap();
        }
        let counts = world.holders("n").await.into_iter().map(|(_, count)| count);
        assert_eq!(counts.collect::<Vec<_>>(), [1], "the store heard of nesting");
    };
    outer.run(inside).await.unwrap();
    outer.release().await.unwrap();
    assert!(world.holders("n").await.is_empty());
}

/// S-7.
pub(crate) async fn a_plain_guard_gives_no_re_entry(world: &World) {
    let client = world.client().await;
    let _guard = client.mutex("g").lock().await.unwrap();
    assert!(client.mutex("g").try_lock().await.unwrap().is_none());
}

/// S-6: a spawned task may outlive its parent's hold.
pub(crate) async fn a_spawned_task_inherits_nothing_unless_told(world: &World) {
    let client = world.client().await;
    let guard = client.mutex("i").lock().await.unwrap();
    let try_it =
        |client: Peer| async move { client.mutex("i").try_lock().await.unwrap().is_some() };
    let inside = async {
        assert!(!lock_tests::spawn(try_it(client.clone())).await.unwrap());
        assert!(lock_tests::spawn(scope::inherit(try_it(client.clone()))).await.unwrap());
    };
    guard.run(inside).await.unwrap();
}

/// The last guard on a hold ends it.
pub(crate) async fn a_nested_guard_that_outlives_the_outer_keeps_the_lock(world: &World) {
    let client = world.client().await;
    let outer = client.mutex("o").lock().await.unwrap();
    let nested = outer.run(client.mutex("o").lock()).await.unwrap().unwrap();
    outer.release().await.unwrap();
    assert_eq!(world.holders("o").await.len(), 1);
    nested.release().await.unwrap();
    assert!(world.holders("o").await.is_empty());
}

/// S-6: one round trip makes a fixed lease long enough for what is inside.
pub(crate) async fn a_longer_nested_lease_extends_a_fixed_one(world: &World) {
    let client = world.client().await;
    let outer = client.mutex("x").with(fixed(secs(2))).lock().await.unwrap();
    let inside = async {
        let nested = client.mutex("x").with(fixed(secs(10))).lock().await.unwrap();
        assert!(nested.remaining() > secs(8), "{:?}", nested.remaining());
        nested.release().await.unwrap();
    };
    outer.run(inside).await.unwrap();
}

/// S-6: a nested acquire extends a fixed lease once, to its own. Nothing renews the hold after that.
pub(crate) async fn a_nested_watchdog_extends_a_fixed_hold_once(world: &World) {
    let client = world.client().await;
    let outer = client.mutex("w").with(fixed(SHORT)).lock().await.unwrap();
    let inside = async {
        let nested = client.mutex("w").with(watched(SHORT * 6)).lock().await.unwrap();
        sleep(SHORT * 2).await;
        assert!(!nested.is_lost(), "it was not extended");
        nested.lost().await
    };
    let outcome = timeout(SOON, outer.run(inside)).await.expect("it was renewed");
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
    drop(outer);
    world.free_soon("w").await;
}

/// S-6: of re-entries side by side one at a time is inside, in order; what is nested in one of them
/// does not wait.
pub(crate) async fn re_entries_side_by_side_exclude_each_other(world: &World) {
    let client = world.client().await;
    let outer = client.mutex("s").lock().await.unwrap();
    let (sum, order) = (Cell::new(0), RefCell::new(Vec::new()));
    let add = async |n: u32| {
        let guard = client.mutex("s").lock().await.unwrap();
        let body = async {
            let before = sum.get();
            client.mutex("s").lock().await.unwrap().release().await.unwrap();
            sleep(ms(10)).await;
            sum.set(before + 1);
            order.borrow_mut().push(n);
        };
        guard.run(body).await.unwrap();
        guard.release().await.unwrap();
    };
    let three = outer.run(async { tokio::join!(add(0), add(1), add(2)) });
    timeout(promptly() * 4, three).await.expect("they wait for themselves").unwrap();
    assert_eq!((sum.get(), order.take()), (3, vec![0, 1, 2]));
    // Also under two runs of one guard.
    let (one, two) = tokio::join!(outer.run(add(3)), outer.run(add(4)));
    one.and(two).unwrap();
    assert_eq!((sum.get(), order.take()), (5, vec![3, 4]));
}

/// S-6: within its own `wait`.
pub(crate) async fn a_re_entry_beside_another_is_busy_or_times_out(world: &World) {
    let client = world.client().await;
    let outer = client.mutex("b").lock().await.unwrap();
    let lock = client.mutex("b");
    let inside = async {
        let first = lock.lock().await.unwrap();
        assert!(lock.try_lock().await.unwrap().is_none(), "two are inside");
        let (wait, asked) = (ms(60), Instant::now());
        let late = lock.clone().with(waits(wait)).lock().await;
        assert!(matches!(late, Err(LockError::Timeout { .. })), "{late:?}");
        assert!(asked.elapsed() >= wait, "it did not wait");
        first.release().await.unwrap();
        drop(lock.try_lock().await.unwrap().expect("no other task is inside"));
    };
    timeout(promptly() * 4, outer.run(inside)).await.expect("it waits for ever").unwrap();
}

/// S-17: whoever leaves the line, also when its turn has come, lets the next one in.
pub(crate) async fn a_waiting_re_entry_that_is_dropped_is_passed_over(world: &World) {
    let client = world.client().await;
    let outer = client.mutex("d").lock().await.unwrap();
    let lock = client.mutex("d");
    let inside = async {
        let first = lock.lock().await.unwrap();
        let (mut second, mut third, mut fourth) = (lock.lock(), lock.lock(), lock.lock());
        for waiter in [&mut second, &mut third, &mut fourth] {
            assert!(poll!(waiter).is_pending(), "two are inside");
        }
        drop(second);
        first.release().await.unwrap();
        // Its turn has come.
        drop(third);
        let released = Instant::now();
        fourth.await.unwrap().release().await.unwrap();
        assert!(released.elapsed() < promptly(), "the turn was lost for {:?}", released.elapsed());
    };
    timeout(promptly() * 4, outer.run(inside)).await.expect("the turn was lost").unwrap();
}

/// S-12: whoever waits inside of a hold hears of its loss at once.
pub(crate) async fn a_loss_reaches_re_entries_that_wait(world: &World) {
    let client = world.client().await;
    let lock = client.mutex("l").with(fixed(SHORT).on_lost(OnLost::Finish));
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let first = lock.lock().await.unwrap();
        let mut second = pin!(lock.lock());
        assert!(poll!(&mut second).is_pending(), "two are inside");
        let left = outer.remaining();
        let told = timeout(left + promptly(), second).await.expect("it hears nothing of the loss");
        assert!(matches!(told, Err(LockError::Lost { .. })), "{told:?}");
        drop(first);
    };
    assert!(matches!(outer.run(inside).await, Err(LockError::Lost { .. })));
}
