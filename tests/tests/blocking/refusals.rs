//! In an async task every call that waits is refused, with a sentence; elsewhere none is.

use lock_runtime::client::RestartGuard;

use crate::prelude::*;

fn refused<T: std::fmt::Debug>(what: &str, outcome: Result<T, LockError>) {
    let error = outcome.expect_err(what);
    assert!(matches!(error, LockError::InAsyncTask), "{what}: {error:?}");
    let text = error.to_string();
    assert!(text.contains("async task") && text.contains("spawn_blocking"), "{text}");
    assert!(!error.is_retryable() && !error.is_busy());
}

#[distributed_lock(key = "plain")]
fn plain() -> Result<(), LockError> {
    panic!("called without its lock");
}

/// Refuses each of these calls in an async task.
macro_rules! are_refused {
    ($($call:expr),* $(,)?) => { $(refused(stringify!($call), $call);)* };
}

fn every_call(client: &LockClient, url: &str) {
    let (mutex, rw, permits) = (client.mutex("a"), client.rw_lock("r"), client.semaphore("s", 1));
    let (latch, admin) = (client.latch("l"), client.admin());
    let builder = LockClient::builder;
    are_refused!(
        mutex.blocking_lock(),
        block_on(mutex.try_lock()),
        mutex.run_blocking(|_| panic!("called without its lock")),
        client.fair_mutex("a").blocking_lock(),
        client.multi_lock(["a", "b"]).blocking_lock(),
        client.any_lock(lock_runtime::LockKind::Mutex, ["a"]).blocking_lock(),
        rw.blocking_read(),
        block_on(rw.try_read()),
        rw.blocking_write(),
        block_on(rw.try_write()),
        permits.blocking_acquire(),
        block_on(permits.try_acquire()),
        block_on(latch.try_set_count(1)),
        block_on(latch.count_down()),
        block_on(latch.count()),
        block_on(latch.reached()),
        block_on(latch.remove()),
        block_on(admin.inspect("a")),
        block_on(admin.force_release("a")),
        block_on(client.ready()),
        client.blocking_shutdown(ms(1)),
        builder().connect_blocking(url),
        block_on(builder().connect_quorum([url], RestartGuard::Off)),
        client.scope_blocking(plain),
    );
}

#[test]
fn every_call_is_refused_in_a_task() {
    let tools = Tools::start();
    let (client, url) = (tools.client(), tools.server.url());
    let guards = ["x", "y"].map(|name| client.mutex(name).blocking_lock().unwrap());
    let current = Builder::new_current_thread().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&current, async { every_call(&client, &url) });
    current.block_on(async { every_call(&client, &url) });
    let (inside, inside_url) = (client.clone(), url.clone());
    let task = tools.runtime.spawn(async move {
        every_call(&inside, &inside_url);
        let [released, extended] = guards;
        refused("extend", block_on(extended.extend(ms(60_000))));
        refused("release", released.blocking_release());
        // What needs no wait goes on working.
        extended.check().unwrap();
        assert_eq!(extended.run_blocking(|hold| hold.token()).unwrap(), extended.token());
    });
    tools.runtime.block_on(task).unwrap();
    // Released in the background all the same.
    free_soon(&client, "x");
    free_soon(&client, "y");
    assert!(client.blocking_shutdown(SOON).unwrap().is_clean());
}

/// A body runs in the caller's context, not in that of the client's runtime.
#[test]
fn a_body_does_not_see_the_runtime_of_the_client() {
    let client = LockClient::in_memory();
    client.mutex("a").run_blocking(|_| assert!(Handle::try_current().is_err())).unwrap();
    let guard = client.mutex("a").blocking_lock().unwrap();
    guard.run_blocking(|_| assert!(Handle::try_current().is_err())).unwrap();
    drop(guard);
    client.scope_blocking(|| {
        #[distributed_lock(key = "a")]
        fn body() -> Result<bool, LockError> {
            Ok(Handle::try_current().is_err())
        }
        assert!(body().unwrap());
    });
    let runtime = runtime();
    let body = move || client.mutex("a").run_blocking(|_| Handle::current().id()).unwrap();
    let seen = runtime.block_on(async { tokio::task::spawn_blocking(body).await.unwrap() });
    assert_eq!(seen, runtime.handle().id());
}

/// A body may start runtimes, clients included, and acquire in them.
#[test]
fn a_runtime_inside_of_a_body() {
    let tools = Tools::start();
    let client = tools.client();
    let body = |_: &LockGuard| {
        let inner = tools.client();
        inner.mutex("inner").run_blocking(|_| ()).unwrap();
        drop(inner);
        runtime().block_on(async {
            let client = LockClient::connect(&tools.server.url()).await.unwrap();
            client.mutex("async").run(async {}).await.unwrap();
            assert!(client.shutdown(SOON).await.is_clean());
        });
    };
    client.mutex("outer").run_blocking(body).unwrap();
}
