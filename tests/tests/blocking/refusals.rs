//! In an async task every call that waits is refused, with a sentence; elsewhere none is.

use std::num::NonZeroU32;

use lock_runtime::quorum::Quorum;

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

fn every_call(client: &LockClient, url: &str) {
    let mutex = client.mutex("a");
    refused("lock", mutex.lock());
    refused("try_lock", mutex.try_lock());
    refused("run", mutex.run(|_| panic!("called without its lock")));
    refused("fair", client.fair_mutex("a").lock());
    refused("multi", client.multi_lock(["a", "b"]).lock());
    refused("any", client.any_lock(lock_runtime::LockKind::Mutex, ["a"]).lock());
    let (prices, permits) = (client.rw_lock("r"), client.semaphore("s", NonZeroU32::MIN));
    refused("read", prices.read());
    refused("try_read", prices.try_read());
    refused("write", prices.write());
    refused("try_write", prices.try_write());
    refused("acquire", permits.acquire());
    refused("try_acquire", permits.try_acquire());
    let latch = client.latch("l");
    refused("try_set_count", latch.try_set_count(1));
    refused("count_down", latch.count_down());
    refused("count", latch.count());
    refused("wait", latch.wait());
    refused("remove", latch.remove());
    refused("inspect", client.inspect("a"));
    refused("force_release", client.force_release("a"));
    refused("ready", client.ready());
    refused("shutdown", client.shutdown(ms(1)));
    refused("connect", LockClient::connect(url));
    let quorum = Quorum::builder().without_restart_guard().blocking();
    refused("a quorum", quorum.connect([url]));
    refused("an annotated function", client.scope(plain));
}

#[test]
fn every_call_is_refused_in_a_task() {
    let tools = Tools::start();
    let (client, url) = (tools.client(), tools.server.url());
    let guards = ["x", "y"].map(|name| client.mutex(name).lock().unwrap());
    let current = Builder::new_current_thread().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&current, async { every_call(&client, &url) });
    current.block_on(async { every_call(&client, &url) });
    let (inside, inside_url) = (client.clone(), url.clone());
    let task = tools.runtime.spawn(async move {
        every_call(&inside, &inside_url);
        let [released, extended] = guards;
        refused("extend", extended.extend(ms(60_000)));
        refused("release", released.release());
        // What needs no wait goes on working.
        extended.check().unwrap();
        assert_eq!(extended.run(|hold| hold.token()).unwrap(), extended.token());
    });
    tools.runtime.block_on(task).unwrap();
    // Released in the background all the same.
    free_soon(&client, "x");
    free_soon(&client, "y");
    assert!(client.shutdown(SOON).unwrap().is_clean());
}

/// A body runs in the caller's context, not in that of the client's runtime.
#[test]
fn a_body_does_not_see_the_runtime_of_the_client() {
    let client = LockClient::in_memory().unwrap();
    client.mutex("a").run(|_| assert!(Handle::try_current().is_err())).unwrap();
    let guard = client.mutex("a").lock().unwrap();
    guard.run(|_| assert!(Handle::try_current().is_err())).unwrap();
    drop(guard);
    client.scope(|| {
        #[distributed_lock(key = "a")]
        fn body() -> Result<bool, LockError> {
            Ok(Handle::try_current().is_err())
        }
        assert!(body().unwrap());
    });
    let runtime = runtime();
    let body = move || client.mutex("a").run(|_| Handle::current().id()).unwrap();
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
        inner.mutex("inner").run(|_| ()).unwrap();
        drop(inner);
        runtime().block_on(async {
            let client = lock_runtime::LockClient::connect(&tools.server.url()).await.unwrap();
            client.mutex("async").run(async {}).await.unwrap();
            assert!(client.shutdown(SOON).await.is_clean());
        });
    };
    client.mutex("outer").run(body).unwrap();
}
