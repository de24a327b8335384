//! S-12, S-13 for bodies that cannot be stopped.

use crate::prelude::*;

#[test]
fn check_fails_at_the_deadline_behind_a_black_hole() {
    let tools = Tools::start();
    let proxy = tools.proxy();
    let client = LockClient::builder().connect_blocking(&proxy.url()).unwrap();
    let lock = client.mutex("b").with(leased(Lease::Watchdog(LEASE)));
    let outcome = lock.run_blocking(|hold| {
        proxy.black_hole();
        // A renewal that was answered before the store fell silent has arrived by then.
        thread::sleep(ms(50));
        let left = hold.remaining();
        // Not earlier than the deadline, as the time between the two lines counts.
        let deadline = Instant::now() + left;
        let lost = loop {
            let asked = Instant::now();
            match hold.check() {
                Ok(()) => assert!(asked <= deadline, "held {:?} too long", asked - deadline),
                Err(lost) => break lost,
            }
        };
        assert!(matches!(lost, LockError::Lost { cause: LossCause::Deadline, .. }), "{lost:?}");
        assert!(Instant::now() + ms(1) >= deadline, "lost before the deadline");
        assert!(hold.is_lost() && hold.remaining().is_zero());
    });
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
    // Another process has it by now.
    free_soon(&tools.client(), "b");
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
