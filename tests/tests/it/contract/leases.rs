//! Time: deadlines, renewal, loss (S-8 to S-13).

use crate::contract::world::*;

/// S-10.
pub(crate) async fn a_watchdog_hold_outlives_its_lease(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let guard = a.mutex("w").with(watched(SHORT)).lock().await.unwrap();
    let until = Instant::now() + SHORT * 4;
    while Instant::now() < until {
        assert!(!guard.is_lost());
        assert!(b.mutex("w").try_lock().await.unwrap().is_none());
        sleep(SHORT / 9).await;
    }
    guard.release().await.unwrap();
}

/// S-12, S-13: at the deadline, not before and hardly after.
pub(crate) async fn a_fixed_lease_cuts_the_body_off(world: &World) {
    let client = world.client().await;
    let guard = client.mutex("f").with(fixed(SHORT)).lock().await.unwrap();
    let (start, left) = (Instant::now(), guard.remaining());
    let outcome = guard.run(pending::<()>()).await;
    let ran = start.elapsed();
    assert!(matches!(&outcome, Err(LockError::Lost { cause: LossCause::Deadline, .. })));
    assert!(ran + ms(3) >= left, "cut off {:?} early", left - ran);
    assert!(ran < left + promptly(), "cut off {:?} late", ran - left);
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
    world.free_soon("f").await;
}

/// S-13 with `OnLost::Finish`.
pub(crate) async fn finish_lets_the_body_end_and_reports(world: &World) {
    let client = world.client().await;
    let finish = fixed(ms(200)).on_lost(OnLost::Finish);
    let guard = client.mutex("fin").with(finish).lock().await.unwrap();
    let ended = AtomicBool::new(false);
    let body = async {
        sleep(ms(400)).await;
        ended.store(true, Ordering::SeqCst);
    };
    let outcome = guard.run(body).await;
    assert!(ended.load(Ordering::SeqCst), "the body was cut off");
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
}

/// S-12.
pub(crate) async fn lost_resolves_at_the_deadline(world: &World) {
    let client = world.client().await;
    let guard = client.mutex("l").with(fixed(SHORT)).lock().await.unwrap();
    let left = guard.remaining();
    let error = timeout(left + promptly(), guard.lost()).await.expect("lost() did not resolve");
    assert!(error.is_lost() && guard.is_lost() && guard.remaining().is_zero());
}

/// S-9.
pub(crate) async fn extend_moves_the_deadline(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let guard = a.mutex("e").with(fixed(SHORT)).lock().await.unwrap();
    guard.extend(SHORT * 4).await.unwrap();
    assert!(guard.remaining() > SHORT * 3);
    // Past the first lease: the hold is good here and in the store.
    sleep(SHORT + SHORT / 2).await;
    assert!(!guard.is_lost());
    assert!(b.mutex("e").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// S-9: a deadline never moves backwards, and neither does the store's.
pub(crate) async fn extend_never_shortens(world: &World) {
    let client = world.client().await;
    let guard = client.mutex("s").with(fixed(secs(60))).lock().await.unwrap();
    guard.extend(ms(100)).await.unwrap();
    assert!(guard.remaining() > secs(50));
    let error = guard.extend(ms(1)).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
}

/// S-10: a body that hangs for ever loses the lock one lease after `max_hold`.
pub(crate) async fn max_hold_ends_renewal(world: &World) {
    let client = world.client().await;
    let bounded = watched(SHORT).max_hold(SHORT * 2);
    let guard = client.mutex("m").with(bounded).lock().await.unwrap();
    let start = Instant::now();
    let outcome = timeout(SHORT * 6, guard.run(pending::<()>())).await;
    assert!(matches!(outcome, Ok(Err(LockError::Lost { .. }))), "{outcome:?}");
    assert!(start.elapsed() > SHORT * 2, "lost after {:?}", start.elapsed());
}

/// A re-entry joins a hold that has its limit, or none, from the outermost guard.
pub(crate) async fn max_hold_of_a_re_entry_is_ignored(world: &World) {
    let client = world.client().await;
    let bounded = watched(SHORT).max_hold(SHORT / 2);
    let outer = client.mutex("free").with(watched(SHORT)).lock().await.unwrap();
    let body = async {
        let _nested = client.mutex("free").with(bounded.clone()).lock().await.unwrap();
        sleep(SHORT * 3).await;
    };
    outer.run(body).await.expect("the nested limit ended the hold");
    outer.release().await.unwrap();

    let outer = client.mutex("bound").with(bounded).lock().await.unwrap();
    let body = async {
        let _nested = client.mutex("bound").with(watched(SHORT)).lock().await.unwrap();
        pending::<()>().await;
    };
    let outcome = timeout(SHORT * 3, outer.run(body)).await;
    assert!(matches!(outcome, Ok(Err(LockError::Lost { .. }))), "{outcome:?}");
}

/// S-11: the clock counts time asleep; a jump past the deadline is a loss at the next poll, and a
/// body that no task polls is woken to die.
pub(crate) async fn a_suspended_machine_loses_its_holds(world: &World) {
    let clock = Clock::boot_time();
    let client = world.client_with(LockClient::builder().clock(clock.clone())).await;
    // The machine falls asleep within the body, or in another task, of which the body hears when its timer wakes it, or never.
    for (within, wakes) in [(true, true), (false, true), (false, false)] {
        let guard = client.mutex("z").lock().await.unwrap();
        let ran_on = AtomicBool::new(false);
        let suspend = |clock: Clock, after| async move {
            sleep(after).await;
            clock.advance(secs(31));
        };
        if !within {
            lock_tests::spawn(suspend(clock.clone(), ms(10)));
        }
        let body = async {
            if within {
                suspend(clock.clone(), ms(50)).await;
                tokio::task::yield_now().await;
            } else if wakes {
                sleep(ms(50)).await;
            } else {
                pending::<()>().await;
            }
            ran_on.store(true, Ordering::SeqCst);
        };
        let outcome = timeout(secs(5), guard.run(body)).await;
        assert!(matches!(outcome, Ok(Err(LockError::Lost { .. }))), "{outcome:?}");
        assert!(!ran_on.load(Ordering::SeqCst), "the body ran after its lease");
        drop(guard);
        world.free_soon("z").await;
    }
}

/// S-13: what the body owns is gone before the lock is.
pub(crate) async fn the_body_is_dropped_before_the_guard(world: &World) {
    struct Note<'a>(&'a RefCell<Vec<&'static str>>, &'static str);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }
    let order = RefCell::new(Vec::new());
    let client = world.client().await;
    let guard = client.mutex("b").with(fixed(ms(150))).lock().await.unwrap();
    let body = async {
        let _note = Note(&order, "body");
        pending::<()>().await;
    };
    let (guard, outcome) = guard.into_inner().run_owned(body).await;
    assert!(outcome.is_err());
    order.borrow_mut().push("guard");
    drop(guard);
    assert_eq!(*order.borrow(), ["body", "guard"]);
}

/// S-19: whoever comes too late changes nothing for the next holder.
pub(crate) async fn an_expired_hold_does_not_touch_its_successor(world: &World) {
    let (a, b) = (world.client().await, world.client().await);
    let late = a.mutex("x").with(fixed(ms(150))).lock().await.unwrap();
    let next = b.mutex("x").lock().await.unwrap();
    assert!(next.token() > late.token());
    assert!(matches!(late.extend(SHORT).await, Err(LockError::Lost { .. })));
    assert!(matches!(late.release().await, Err(LockError::Lost { .. })));
    // The late one's clean-up has run once the line there is free again.
    soon!(
        "the late client asks again",
        a.mutex("x").try_lock().await.is_ok_and(|guard| guard.is_none())
    );
    assert!(!next.is_lost());
    assert_eq!(world.holders("x").await.len(), 1);
    next.release().await.unwrap();
}
