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

fn every_call(client: &LockClient, url: &str) {
    let mutex = client.mutex("a");
    refused("lock", mutex.blocking_lock());
    refused("try_lock", block_on(mutex.try_lock()));
    refused("run", mutex.run_blocking(|_| panic!("called without its lock")));
    refused("fair", client.fair_mutex("a").blocking_lock());
    refused("multi", client.multi_lock(["a", "b"]).blocking_lock());
    refused("any", client.any_lock(lock_runtime::LockKind::Mutex, ["a"]).blocking_lock());
    let (prices, permits) = (client.rw_lock("r"), client.semaphore("s", 1));
    refused("read", prices.blocking_read());
    refused("try_read", block_on(prices.try_read()));
    refused("write", prices.blocking_write());
    refused("try_write", block_on(prices.try_write()));
    refused("acquire", permits.blocking_acquire());
    refused("try_acquire", block_on(permits.try_acquire()));
    let latch = client.latch("l");
    refused("try_set_count", block_on(latch.try_set_count(1)));
    refused("count_down", block_on(latch.count_down()));
    refused("count", block_on(latch.count()));
    refused("reached", block_on(latch.reached()));
    refused("remove", block_on(latch.remove()));
    refused("inspect", block_on(client.admin().inspect("a")));
    refused("force_release", block_on(client.admin().force_release("a")));
    refused("ready", block_on(client.ready()));
    refused("shutdown", client.blocking_shutdown(ms(1)));
    refused("connect", LockClient::builder().connect_blocking(url));
    let quorum = LockClient::builder().connect_quorum([url], RestartGuard::Off);
    refused("a quorum", block_on(quorum));
    refused("an annotated function", client.scope_blocking(plain));
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
