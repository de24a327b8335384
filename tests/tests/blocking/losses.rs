//! S-12, S-13 for bodies that cannot be stopped.

use crate::prelude::*;

/// Checks the hold until it is lost. No check that begins after the deadline may succeed.
fn check_until_lost(guard: &LockGuard) {
    // A renewal that was answered before the store fell silent has arrived by then.
    thread::sleep(ms(50));
    let left = guard.remaining();
    // Not earlier than the deadline, as the time between the two lines counts.
    let deadline = Instant::now() + left;
    let lost = loop {
        let asked = Instant::now();
        match guard.check() {
            Ok(()) => assert!(asked <= deadline, "held {:?} past the deadline", asked - deadline),
            Err(lost) => break lost,
        }
    };
    assert!(matches!(lost, LockError::Lost { cause: LossCause::Deadline, .. }), "{lost:?}");
    assert!(Instant::now() + ms(1) >= deadline, "lost before the deadline");
    assert!(guard.is_lost() && guard.remaining().is_zero());
}

#[test]
fn check_fails_at_the_deadline_behind_a_black_hole() {
    let tools = Tools::start();
    let proxy = tools.proxy();
    let client = LockClient::builder().connect_blocking(&proxy.url()).unwrap();
    let lock = client.mutex("b").with(leased(Lease::Watchdog(LEASE)));
    let outcome = lock.run_blocking(|hold| {
        proxy.black_hole();
        check_until_lost(hold);
    });
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
    // Another process has it by now.
    free_soon(&tools.client(), "b");
}

/// The value of a body that did not notice is late, and the lock belonged to another holder meanwhile.
#[test]
fn a_body_that_does_not_check_runs_on_and_the_loss_is_reported() {
    struct Value(Arc<AtomicBool>);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let tools = Tools::start();
    let (client, other) = (tools.client(), tools.client());
    let dropped = Arc::new(AtomicBool::new(false));
    let lock = client.mutex("late").with(leased(Lease::Fixed(ms(200))));
    let mut overlapped = false;
    let outcome = lock.run_blocking(|_| {
        // In a thread of its own: the body itself would wait for its own caller.
        let next = || other.mutex("late").wait(SOON).blocking_lock().unwrap();
        let next = thread::scope(|threads| threads.spawn(next).join().unwrap());
        overlapped = !next.is_lost();
        Value(Arc::clone(&dropped))
    });
    assert!(matches!(outcome, Err(LockError::Lost { .. })));
    assert!(overlapped && dropped.load(Ordering::SeqCst));
}

#[test]
fn a_body_is_not_called_after_the_loss() {
    let client = LockClient::in_memory();
    let guard = client.mutex("gone").with(leased(Lease::Fixed(ms(100)))).blocking_lock().unwrap();
    thread::sleep(ms(110));
    let outcome = guard.run_blocking(|_| panic!("called under a lost hold"));
    assert!(matches!(outcome, Err::<(), _>(LockError::Lost { .. })), "{outcome:?}");
}

#[test]
fn a_lock_that_was_removed_meanwhile_is_reported_as_the_options_say() {
    let client = LockClient::in_memory();
    let lock = |on_release_lost| {
        let options = LockOptions::new().on_release_lost(on_release_lost);
        client.mutex("removed").with(options)
    };
    let body = |_: &LockGuard| block_on(client.admin().force_release("removed")).unwrap();
    assert!(lock(OnReleaseLost::Log).run_blocking(body).unwrap());
    let outcome = lock(OnReleaseLost::Error).run_blocking(body);
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
}
