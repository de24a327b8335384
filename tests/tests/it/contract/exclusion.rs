//! One holder at a time, and a lock that is let go is free.

use crate::contract::world::*;

/// S-5: two clients and several tasks never hold at once.
pub(crate) async fn one_holder_at_a_time(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for task in 0..12 {
        let client = if task % 2 == 0 { a.clone() } else { b.clone() };
        let inside = inside.clone();
        tasks.push(lock_tests::spawn(async move {
            for _ in 0..20 {
                let guard = client.mutex("one").lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    joined(tasks).await;
    world.free_soon("one").await;
}

/// S-19, S-20: by its holder, by a drop, which hands the hold to the releaser, and during unwinding.
pub(crate) async fn a_lock_that_is_let_go_is_free(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let guard = a.mutex("r").lock().await.unwrap();
    assert_eq!(world.holders("r").await.len(), 1);
    assert!(b.mutex("r").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(world.holders("r").await.is_empty());
    drop(b.mutex("r").try_lock().await.unwrap().expect("it is free"));
    world.free_soon("r").await;
    let holder = lock_tests::spawn(async move {
        let guard = a.mutex("r").lock().await.unwrap();
        guard.run(async { panic!("on purpose") }).await.unwrap();
    });
    assert!(holder.await.unwrap_err().is_panic());
    world.free_soon("r").await;
}

/// Being busy is not an error for `try_lock`, and no reason to wait.
pub(crate) async fn try_lock_takes_no_for_an_answer(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let _held = a.mutex("t").lock().await.unwrap();
    for client in [&a, &b] {
        let answer = timeout(promptly(), client.mutex("t").try_lock()).await;
        assert!(answer.expect("try_lock waited").unwrap().is_none());
    }
    let error = b.mutex("t").with(waits(Wait::None)).lock().await.unwrap_err();
    assert!(matches!(error, LockError::Busy { .. }), "{error:?}");
}

/// A release that is under way is worth the one round trip that it takes.
pub(crate) async fn try_lock_right_after_a_drop_succeeds(world: &World) {
    let client = world.client().await;
    for _ in 0..20 {
        drop(client.mutex("again").lock().await.unwrap());
        assert!(client.mutex("again").try_lock().await.unwrap().is_some());
    }
}

/// Another process that listens, because it waited a moment ago, is not a holder.
pub(crate) async fn try_lock_is_not_fooled_by_a_listener(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let held = a.mutex("listener").lock().await.unwrap();
    let waiter = lock_tests::spawn(b.mutex("listener").lock());
    world.subscribed("listener").await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    for _ in 0..20 {
        a.mutex("listener").lock().await.unwrap().release().await.unwrap();
        let guard = a.mutex("listener").try_lock().await.unwrap().expect("no task holds it");
        guard.release().await.unwrap();
    }
}

/// S-23.
pub(crate) async fn tokens_grow_across_clients(world: &World) {
    let clients = [world.client().await, world.client().await];
    let mut last = None;
    for round in 0..40 {
        let guard = clients[round % 2].mutex("fence").lock().await.unwrap();
        assert!(Some(guard.token()) > last, "token {} after {last:?}", guard.token());
        last = Some(guard.token());
        guard.release().await.unwrap();
    }
}

/// S-1, S-10: refused before anything is sent.
pub(crate) async fn invalid_names_and_options_are_refused(world: &World) {
    let client = world.client().await;
    for name in ["", "a\nb", "{}x"] {
        let error = client.mutex(name).lock().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{name:?}: {error:?}");
    }
    let error = client.mutex("order:1").with(fixed(ms(99))).lock().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
}

/// S-2.
pub(crate) async fn namespaces_are_kept_apart(world: &World) {
    let shop = world.client_with(LockClient::builder().namespace("shop")).await;
    let plain = world.client().await;
    let guard = shop.mutex("order:1").lock().await.unwrap();
    assert_eq!(guard.key(), &LockKey::new("shop:order:1").unwrap());
    assert!(plain.mutex("order:1").try_lock().await.unwrap().is_some());
    assert!(plain.mutex("shop:order:1").try_lock().await.unwrap().is_none());
}

/// S-20: a guard that outlives the shutdown of its client gives its lock back.
pub(crate) async fn a_shut_down_client_refuses(world: &World) {
    let client = world.client().await;
    let held = client.mutex("s").lock().await.unwrap();
    let waiter = lock_tests::spawn(client.mutex("s").lock());
    tokio::task::yield_now().await;
    let report = client.shutdown(ms(50)).await;
    assert_eq!((report.still_held, report.is_clean()), (1, false));
    assert!(matches!(waiter.await.unwrap(), Err(LockError::Closed)));
    assert!(matches!(client.mutex("x").lock().await, Err(LockError::Closed)));
    drop(held);
    world.free_soon("s").await;
    // And a second shutdown finds nothing left.
    assert!(client.shutdown(secs(5)).await.is_clean());
}

/// S-20: shutdown drains the releaser.
pub(crate) async fn shutdown_gives_back_what_is_dropped(world: &World) {
    let client = world.client().await;
    for n in 0..50 {
        drop(client.mutex(format!("many:{n}")).lock().await.unwrap());
    }
    assert!(client.shutdown(secs(5)).await.is_clean());
    for n in 0..50 {
        assert!(world.holders(&format!("many:{n}")).await.is_empty());
    }
}

/// S-20: also the one that asks the store for all others is sent away at once.
pub(crate) async fn shutdown_wakes_tasks_that_wait_for_the_store(world: &World) {
    let (holder, client) = (world.client().await, world.client().await);
    let _held = holder.mutex("far").lock().await.unwrap();
    let waiter = lock_tests::spawn(client.mutex("far").lock());
    // It waits for the store by the time another waits for it.
    sleep(ms(100)).await;
    assert!(!waiter.is_finished());
    let report = timeout(promptly(), client.shutdown(Duration::MAX)).await;
    assert!(report.expect("shutdown waited for the holder").is_clean());
    let outcome = timeout(promptly(), waiter).await.expect("not sent away").unwrap();
    assert!(matches!(outcome, Err(LockError::Closed)), "{outcome:?}");
}

/// S-20: a hold that is lost needs no wait: lost before, after a first shutdown, or while
/// it is waited for.
pub(crate) async fn shutdown_does_not_wait_for_what_is_lost(world: &World) {
    let is_clean = async |client: &Peer| {
        let report = timeout(promptly(), client.shutdown(secs(60))).await;
        assert!(report.expect("waited for a lost hold").is_clean());
    };
    let brief = fixed(promptly() / 4);
    let client = world.client().await;
    let lost = client.mutex("lost").with(brief.clone()).lock().await.unwrap();
    lost.lost().await;
    is_clean(&client).await;
    assert!(matches!(lost.release().await, Err(LockError::Lost { .. })));

    let client = world.client().await;
    let later = client.mutex("later").with(watched(SHORT)).lock().await.unwrap();
    assert_eq!(client.shutdown(Duration::ZERO).await.still_held, 1);
    timeout(SHORT + promptly(), later.lost()).await.expect("renewed after a shutdown");
    is_clean(&client).await;

    let client = world.client().await;
    let meanwhile = client.mutex("meanwhile").with(brief).lock().await.unwrap();
    is_clean(&client).await;
    assert!(meanwhile.is_lost());
}
