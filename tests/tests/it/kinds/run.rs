//! `run` of every kind: acquire, run and release in one call; `wait` and `lease` on the lock itself.
// S-12, S-13.

use lock_runtime::options::OnReleaseLost;

use crate::prelude::*;
use crate::support::kinds::two_in_memory as two_clients;

const BRIEF: Duration = ms(200);

/// Calls the macro `$check` for each kind: with a lock, the method that runs a body under it, the same lock of another
/// process, its method that the first one keeps out, and a client of each store that has the lock.
macro_rules! for_every_kind {
    ($check:ident) => {{
        let (one, other) = two_clients();
        $check!(one.mutex("a"), run, other.mutex("a"), run, [&other]);
        $check!(one.fair_mutex("a"), run, other.fair_mutex("a"), run, [&other]);
        $check!(one.rw_lock("a"), run_read, other.rw_lock("a"), run_write, [&other]);
        $check!(one.rw_lock("a"), run_write, other.rw_lock("a"), run_read, [&other]);
        let permit = |client: &LockClient| client.semaphore("a:permits", 1);
        $check!(permit(&one), run, permit(&other), run, [&other]);
        $check!(one.multi_lock(["a", "b"]), run, other.multi_lock(["a", "b"]), run, [&other]);
        let any = |client: &LockClient| client.any_lock(LockKind::Write, ["a"]);
        $check!(any(&one), run, any(&other), run, [&other]);
        let stores = [(); 3].map(|()| MemoryStore::new());
        let servers = stores.each_ref().map(|it| Arc::new(it.peer()) as Arc<dyn Store>);
        let quorum = LockClient::builder().quorum_of(servers, RestartGuard::Off).unwrap();
        let each = stores.map(|store| LockClient::builder().store(store).unwrap());
        $check!(quorum.mutex("a"), run, quorum.mutex("a"), run, each);
        // Not every check needs them.
        let _ = (&other, &each);
    }};
}

/// The body has the lock, a call beside it finds it busy, one that is dropped while it waits never starts its body, and
/// the lock is free afterwards.
#[tokio::test(start_paused = true)]
async fn every_kind_holds_while_its_body_runs() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            let lock = $lock;
            let beside = $beside.wait(Wait::None);
            let body = async {
                let current = LockGuard::current().unwrap();
                assert!(current.key().as_str().contains('a') && !current.is_lost());
                // In another task: what runs inside of the hold would re-enter it.
                let beside = beside.clone();
                let refused = lock_tests::spawn(async move {
                    let refused = beside.$beside_run(async { panic!("without the lock") }).await;
                    let waiting = beside.wait(Wait::Forever).$beside_run(async { panic!("held") });
                    assert!(timeout(BRIEF, waiting).await.is_err(), "the lock is held");
                    refused
                });
                assert!(refused.await.unwrap().unwrap_err().is_busy());
                current.token()
            };
            let token = lock.$run(body).await.unwrap();
            assert!(LockGuard::current().is_none());
            let next = beside.$beside_run(async { LockGuard::current().unwrap().token() }).await;
            assert!(next.unwrap() > token, "the lock was released when the value was returned");
        }};
    }
    for_every_kind!(check);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_at_the_end_of_a_fixed_lease() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            let lock = $lock.lease(Lease::Fixed(BRIEF));
            let error = lock.$run(pending::<()>()).await.unwrap_err();
            assert!(matches!(error, LockError::Lost { cause: LossCause::Deadline, .. }), "{error}");
            $beside.wait(BRIEF).$run(async {}).await.unwrap();
        }};
    }
    for_every_kind!(check);
}

/// The body frees its own lock as an operator would, and ends before its process can know.
#[tokio::test(start_paused = true)]
async fn a_release_that_finds_the_hold_gone_is_an_error_where_options_say_so() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            for (on_release_lost, is_error) in
                [(OnReleaseLost::Log, false), (OnReleaseLost::Error, true)]
            {
                let options = LockOptions::new().on_release_lost(on_release_lost);
                // The loss is found by the release, not by the end of the body.
                let lock = $lock.with(options.on_lost(OnLost::Finish));
                let body = async {
                    let name = LockGuard::current().unwrap().key().clone();
                    let name = if name.as_str().contains("permits") { "a:permits" } else { "a" };
                    let mut freed = true;
                    for client in &$clients {
                        freed &= client.admin().force_release(name).await.unwrap();
                    }
                    freed
                };
                match lock.$run(body).await {
                    Ok(freed) => assert!(freed && !is_error),
                    Err(error) => assert!(is_error && error.is_lost(), "{error}"),
                }
            }
        }};
    }
    for_every_kind!(check);
}

#[tokio::test(start_paused = true)]
async fn current_is_the_innermost_hold_of_the_call_path() {
    let client = LockClient::in_memory();
    let current = || LockGuard::current().map(|hold| hold.key().to_string());
    let (outer, inner) = (client.mutex("outer"), client.mutex("inner"));
    let nested = outer.run(async {
        let before = current();
        let within = inner.run(async { current() }).await.unwrap();
        let elsewhere = lock_tests::spawn(async move { current() }).await.unwrap();
        [before, within, elsewhere, current()]
    });
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(nested.await.unwrap(), [name("outer"), name("inner"), None, name("outer")]);
    // A hold whose guard is gone is no hold, also where its chain was carried elsewhere.
    let mut late = None;
    let inherits = async { late = Some(lock_runtime::scope::inherit(async move { current() })) };
    outer.run(inherits).await.unwrap();
    assert_eq!(late.unwrap().await, None);
    // One that was lost is still the hold of the code under it, which learns of the loss.
    let mut seen = None;
    let lost = outer.on_lost(OnLost::Finish).lease(Lease::Fixed(BRIEF)).run(async {
        sleep(BRIEF * 2).await;
        seen = LockGuard::current().map(|hold| hold.is_lost());
    });
    assert!(lost.await.unwrap_err().is_lost());
    assert_eq!(seen, Some(true));
}
