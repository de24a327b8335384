//! `run` of every kind: acquire, run and release in one call; `wait` and `lease` on the lock itself.
// S-12, S-13.

use std::future::{Ready, ready};

use lock_runtime::guard::Run;
use lock_runtime::options::{MAX_LEASE, OnReleaseLost};
use lock_runtime::{FairMutex, Mutex};

use crate::prelude::*;
use crate::support::kinds::two_in_memory as two_clients;

const BRIEF: Duration = ms(200);

fn one_permit(client: &LockClient) -> Semaphore {
    client.semaphore("a:permits", 1)
}

fn quorum_of(stores: &[MemoryStore; 3]) -> LockClient {
    let stores = stores.each_ref().map(|store| Arc::new(store.peer()) as Arc<dyn Store>);
    LockClient::builder().quorum_of(stores, RestartGuard::Off).unwrap()
}

/// Calls the macro `$check` for each kind: with a lock, the method that runs a body under it, the same lock of another
/// process, its method that the first one keeps out, and a client of each store that has the lock.
macro_rules! for_every_kind {
    ($check:ident) => {{
        let (one, other) = two_clients();
        let several = |client: &LockClient| client.multi_lock(["a", "b"]);
        let any = |client: &LockClient| client.any_lock(LockKind::Write, ["a"]);
        $check!(one.mutex("a"), run, other.mutex("a"), run, [&other]);
        $check!(one.fair_mutex("a"), run, other.fair_mutex("a"), run, [&other]);
        $check!(one.rw_lock("a"), run_read, other.rw_lock("a"), run_write, [&other]);
        $check!(one.rw_lock("a"), run_write, other.rw_lock("a"), run_read, [&other]);
        $check!(one_permit(&one), run, one_permit(&other), run, [&other]);
        $check!(several(&one), run, several(&other), run, [&other]);
        $check!(any(&one), run, any(&other), run, [&other]);
        let stores = [(); 3].map(|()| MemoryStore::new());
        let quorum = quorum_of(&stores);
        let each = stores.map(|store| LockClient::builder().store(store).unwrap());
        $check!(quorum.mutex("a"), run, quorum.mutex("a"), run, each);
        // Not every check needs them.
        let _ = (&other, &each);
    }};
}

/// What a body keeps, and by whose count a test sees whether the body is there.
fn alive() -> (Arc<()>, Arc<()>) {
    let alive = Arc::new(());
    (Arc::clone(&alive), alive)
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
                    let mut started = false;
                    let refused = beside.$beside_run(async { started = true }).await;
                    let waiting = beside.wait(Wait::Forever).$beside_run(async { started = true });
                    assert!(timeout(BRIEF, waiting).await.is_err(), "the lock is held");
                    assert!(!started, "the body ran without the lock");
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
async fn a_dropped_run_drops_its_body_and_releases() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            let (lock, (inside, alive)) = ($lock, alive());
            {
                let mut run = pin!(lock.$run(async move {
                    let _inside = inside;
                    pending::<()>().await
                }));
                // A quorum asks its servers in tasks of their own.
                assert!(timeout(BRIEF, run.as_mut()).await.is_err());
                assert_eq!(Arc::strong_count(&alive), 2, "the body runs");
            }
            assert_eq!(Arc::strong_count(&alive), 1, "the body is gone");
            $beside.wait(BRIEF).$run(async {}).await.unwrap();
        }};
    }
    for_every_kind!(check);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_at_the_end_of_a_fixed_lease() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            let (lock, (inside, alive)) = ($lock.lease(Lease::Fixed(BRIEF)), alive());
            let body = async move {
                let _inside = inside;
                pending::<()>().await
            };
            let error = lock.$run(body).await.unwrap_err();
            assert!(matches!(error, LockError::Lost { cause: LossCause::Deadline, .. }), "{error}");
            assert_eq!(Arc::strong_count(&alive), 1, "the body is gone");
            $beside.wait(BRIEF).$run(async {}).await.unwrap();
        }};
    }
    for_every_kind!(check);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_must_finish_does_and_its_loss_is_reported() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            let options = fixed(BRIEF);
            let lock = $lock.with(options.on_lost(OnLost::Finish));
            let mut finished = false;
            let body = async {
                sleep(2 * BRIEF).await;
                finished = true;
            };
            let error = lock.$run(body).await.unwrap_err();
            assert!(finished && error.is_lost(), "{error}");
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
async fn a_body_that_panics_releases_and_the_panic_goes_on() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            let run = $lock.$run(async { panic!("the body fails") });
            let panic = lock_tests::spawn(run).await.unwrap_err();
            assert!(panic.is_panic(), "{panic}");
            $beside.wait(BRIEF).$run(async {}).await.unwrap();
        }};
    }
    for_every_kind!(check);
}

/// An invalid value fails each acquire, and nothing else.
#[tokio::test(start_paused = true)]
async fn every_kind_reports_an_invalid_wait_or_lease_when_it_acquires() {
    macro_rules! check {
        ($lock:expr, $run:ident, $beside:expr, $beside_run:ident, $clients:expr) => {{
            let lock = $lock;
            let invalid = [
                lock.clone().wait(Duration::ZERO),
                lock.clone().lease(Lease::Fixed(ms(1))),
                lock.clone().lease(Lease::Watchdog(MAX_LEASE + BRIEF)),
                lock.clone().lease(Lease::Fixed(Duration::ZERO)).wait(BRIEF),
            ];
            for invalid in invalid {
                let error = invalid.$run(async {}).await.unwrap_err();
                assert!(matches!(error, LockError::InvalidOptions(_)), "{error}");
            }
            lock.wait(BRIEF).lease(Lease::Fixed(MAX_LEASE)).$run(async {}).await.unwrap();
        }};
    }
    for_every_kind!(check);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_name_is_reported_before_an_invalid_lease() {
    let client = LockClient::in_memory();
    let lock = client.mutex("").lease(Lease::Fixed(Duration::ZERO));
    assert!(matches!(lock.run(async {}).await, Err(LockError::InvalidKey { .. })));
    let none = MultiLock::of([]).wait(BRIEF);
    assert!(matches!(none.run(async {}).await, Err(LockError::InvalidOptions(_))));
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
}

/// What users move between tasks, or name in a struct.
#[test]
fn a_run_is_send_for_every_kind() {
    fn sends<T: Send>(_: impl Fn(&T) -> Run<'static, Ready<()>>) {
        fn is_send<T: Send>() {}
        is_send::<Run<'static, Ready<()>>>();
    }
    sends::<Mutex>(|lock| lock.run(ready(())));
    sends::<FairMutex>(|lock| lock.run(ready(())));
    sends::<RwLock>(|lock| lock.run_read(ready(())));
    sends::<RwLock>(|lock| lock.run_write(ready(())));
    sends::<Semaphore>(|lock| lock.run(ready(())));
    sends::<MultiLock>(|lock| lock.run(ready(())));
    sends::<AnyLock>(|lock| lock.run(ready(())));
}
