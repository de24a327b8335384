//! On a thread without a runtime each call answers with a sentence that says what is missing.

use std::task::Waker;

use crate::prelude::*;

/// Polls once, on a thread that no runtime knows.
fn on_a_thread<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let poll = || match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits for a runtime that is not there"),
    };
    std::thread::scope(|scope| scope.spawn(poll).join()).expect("it does not panic")
}

fn check<T>(what: &str, outcome: Result<T, LockError>) {
    let Err(error) = outcome else { panic!("{what} needs no runtime") };
    assert!(matches!(error, LockError::NoRuntime), "{what}: {error:?}");
    let text = error.to_string();
    assert!(text.contains("no Tokio runtime") && text.contains("Handle::enter"), "{text}");
    assert!(!error.is_retryable() && !error.is_busy());
}

#[tokio::test]
async fn every_call_says_what_is_missing() {
    let server = RedisServer::start().await;
    let url = server.url();
    for client in [LockClient::connect(&url).await.unwrap(), LockClient::in_memory()] {
        let lock = client.mutex("a");
        check("lock", on_a_thread(lock.lock()));
        check("try_lock", on_a_thread(lock.try_lock()));
        let latch = client.latch("b");
        check("wait", on_a_thread(latch.reached()));
        check("count", on_a_thread(latch.count()));
        check("inspect", on_a_thread(client.admin().inspect("a")));
        check("force_release", on_a_thread(client.admin().force_release("a")));
        let guard = lock.lock().await.unwrap();
        check("run", on_a_thread(guard.run(async { 5 })));
        check("extend", on_a_thread(guard.extend(secs(60))));
        check("release", on_a_thread(guard.release()));
        // It was given back in the background all the same.
        lock.lock().await.unwrap().release().await.unwrap();
    }
    check("connect", on_a_thread(LockClient::connect(&url)));
    check("connect_sentinel", on_a_thread(LockClient::builder().connect_sentinel("locks", [&url])));
    let cluster = LockClient::builder().connect_cluster([&url]);
    check("connect_cluster", on_a_thread(cluster));
    check("a quorum", on_a_thread(LockClient::builder().connect_quorum([&url], RestartGuard::Off)));
}

test_with!(a_thread_that_enters_the_runtime_takes_locks, world(), async |(_server, client)| {
    let runtime = tokio::runtime::Handle::current();
    let thread = std::thread::spawn(move || runtime.block_on(client.mutex("a").lock()).map(drop));
    tokio::task::spawn_blocking(|| thread.join()).await.unwrap().unwrap().unwrap();
});
