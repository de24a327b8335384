//! `#[distributed_lock]` on a plain `fn`.

use lock_runtime::policy::LockConfig;

use crate::prelude::*;

#[distributed_lock(key = "shared", guard = hold)]
fn of_installed() -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "shared", client = client, guard = hold)]
fn of_reference(client: &LockClient) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "shared", client = client, guard = hold)]
fn of_shared(client: Arc<LockClient>) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "shared", guard = hold)]
async fn async_installed() -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

fn settings(namespace: &str) -> LockClientBuilder {
    LockClient::builder().namespace(namespace)
}

/// The client that the attribute names, else the enclosing scope's, else the installed one.
#[test]
fn the_client_is_found() {
    let error = of_installed().unwrap_err();
    assert!(matches!(error, LockError::NoClient { .. }), "{error:?}");
    assert!(error.to_string().contains("of_installed") && error.to_string().contains("install()"));

    let named = settings("named").in_memory().unwrap();
    assert_eq!(of_reference(&named).unwrap(), "named:shared");
    assert_eq!(of_shared(Arc::new(named)).unwrap(), "named:shared");

    settings("installed").in_memory().unwrap().install();
    let runtime = runtime();
    let on_a_thread = || async { tokio::task::spawn_blocking(of_installed).await.unwrap() };
    assert_eq!(of_installed().unwrap(), "installed:shared");
    assert_eq!(runtime.block_on(async_installed()).unwrap(), "installed:shared");
    assert_eq!(runtime.block_on(on_a_thread()).unwrap(), "installed:shared");
    let current = LockClient::current().unwrap();
    assert_eq!(current.mutex("a").blocking_lock().unwrap().key().as_str(), "installed:a");

    let scoped = settings("scoped").in_memory().unwrap();
    assert_eq!(scoped.scope_blocking(of_installed).unwrap(), "scoped:shared");
    let elsewhere =
        scoped.scope_blocking(|| thread::spawn(inherit_blocking(of_installed)).join().unwrap());
    assert_eq!(elsewhere.unwrap(), "scoped:shared");
    let inherits =
        async { tokio::task::spawn_blocking(inherit_blocking(of_installed)).await.unwrap() };
    assert_eq!(runtime.block_on(scoped.scope(inherits)).unwrap(), "scoped:shared");
}

#[distributed_lock(key = "tree", wait = none, guard = hold)]
fn depth(of: u32) -> Result<(u32, u64), LockError> {
    let token = hold.token().get();
    match of {
        0 => Ok((0, token)),
        _ => {
            let (below, inner) = depth(of - 1)?;
            assert_eq!(inner, token);
            Ok((below + 1, token))
        }
    }
}

/// S-6: nested calls on one key re-enter; S-7: a plain guard around one does not let it in.
#[test]
fn nested_calls_re_enter() {
    let client = LockClient::in_memory();
    client.scope_blocking(|| {
        assert_eq!(depth(3).unwrap().0, 3);
        let _guard = client.mutex("tree").blocking_lock().unwrap();
        assert!(depth(0).unwrap_err().is_busy());
    });
}

#[distributed_lock(key = "job", on_busy = skip)]
fn skips() -> Option<u32> {
    Some(1)
}

#[distributed_lock(key = "job", on_busy = fallback(cached), guard = hold)]
fn falls_back(page: u32) -> Result<String, LockError> {
    Ok(format!("fresh {page} {}", hold.is_lost()))
}

fn cached(page: u32) -> Result<String, LockError> {
    Ok(format!("cached {page}"))
}

#[distributed_lock(key = "job", wait = none, when = !dry_run)]
fn conditional(dry_run: bool) -> Result<u32, LockError> {
    Ok(2)
}

#[distributed_lock(key = "outer", wait = none)]
#[distributed_lock(key = "job", wait = none, guard = hold)]
fn stacked() -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[test]
fn a_busy_lock_is_handled_as_the_attribute_says() {
    let client = LockClient::in_memory();
    client.scope_blocking(|| {
        assert_eq!(skips(), Some(1));
        assert_eq!(falls_back(3).unwrap(), "fresh 3 false");
        assert_eq!(stacked().unwrap(), "job");
        let _held = client.mutex("job").blocking_lock().unwrap();
        let log = lock_tests::Log::start();
        assert_eq!(skips(), None);
        assert_eq!(log.lines_with("skipped: another holder has the lock").len(), 1);
        assert_eq!(falls_back(3).unwrap(), "cached 3");
        assert_eq!(conditional(true).unwrap(), 2);
        assert!(conditional(false).unwrap_err().is_busy());
        assert!(stacked().unwrap_err().is_busy());
    });
    // The failed call has released its outer lock.
    assert!(block_on(client.mutex("outer").try_lock()).unwrap().is_some());
}

#[distributed_lock(key = "late", lease = "100ms", on_lost = finish, guard = hold)]
fn late(ended: &AtomicBool) -> Result<u32, LockError> {
    while hold.check().is_ok() {
        thread::sleep(ms(1));
    }
    ended.store(true, Ordering::SeqCst);
    Ok(1)
}

/// S-13: the body ends, and its value is late.
#[test]
fn a_loss_is_returned_when_the_body_has_ended() {
    let ended = AtomicBool::new(false);
    let outcome = LockClient::in_memory().scope_blocking(|| late(&ended));
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
    assert!(ended.load(Ordering::SeqCst));
}

#[distributed_lock(key = "trial", policy = "trial", wait = none)]
fn on_trial() -> Result<u32, LockError> {
    Ok(7)
}

/// A policy that is not enforced lets every call run.
#[test]
fn a_policy_on_trial_does_not_hold_calls_up() {
    let config = "[lock]\nurl = 'memory:'\n[lock.policies.trial]\nenforce = false";
    let client = LockClient::from_config(LockConfig::from_toml(config).unwrap());
    let client = block_on(client).unwrap();
    client.scope_blocking(|| {
        assert_eq!(on_trial().unwrap(), 7);
        let _held = client.mutex("trial").blocking_lock().unwrap();
        assert_eq!(on_trial().unwrap(), 7);
    });
}

/// A `()` cannot report that the body did not run, and a scheduled job that never runs must not go unnoticed.
#[test]
fn a_call_in_a_task_that_cannot_say_so_panics() {
    let client = LockClient::in_memory();
    let call = async move { client.scope_blocking(skips) };
    let panic = runtime().block_on(async { tokio::spawn(call).await.unwrap_err() });
    let message = panic.into_panic().downcast::<String>().unwrap();
    assert!(message.contains("skips") && message.contains("async task"), "{message}");
}
