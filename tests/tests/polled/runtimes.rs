//! Waiters beside tasks of another runtime, which is blocked or has ended.

use std::sync::mpsc;
use std::time::Duration;

use lock_runtime::LockClient;
use tokio::time::{Instant, timeout};

use crate::{lock, ms, polled_once};

/// S-34: not even the tasks of the client run there, so those who wait measure by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_runtime_is_passed_over() {
    let client = LockClient::in_memory();
    let (ready, is_ready) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let blocked = std::thread::spawn({
        let client = client.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let held = client.mutex("k").lock().await.unwrap();
                let sleeper = polled_once(lock(&client, "mutex", "k")).await;
                held.release().await.unwrap();
                ready.send(()).unwrap();
                // Blocks its thread.
                ended.recv().unwrap();
                sleeper.await.unwrap().release().await.unwrap();
            });
        }
    });
    tokio::task::spawn_blocking(move || is_ready.recv().unwrap()).await.unwrap();
    let start = Instant::now();
    let guard = timeout(Duration::from_secs(10), client.mutex("k").lock()).await.expect("hangs");
    let waited = start.elapsed();
    assert!(waited <= ms(2_500), "waited {waited:?}");
    end.send(()).unwrap();
    guard.unwrap().release().await.unwrap();
    tokio::task::spawn_blocking(move || blocked.join().unwrap()).await.unwrap();
}

/// S-20, S-34: what is let go after the runtime of the client's tasks has ended is given back for whoever
/// waits for it already.
#[test]
fn an_ended_runtime_is_passed_over() {
    let client = LockClient::in_memory();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let held = first.block_on(client.mutex("k").lock()).unwrap();
    runtime().block_on(async {
        let mut waiting = polled_once(lock(&client, "mutex", "k")).await;
        // Outside of any runtime, so that nothing starts the client's tasks anew.
        let ended = std::thread::spawn(move || {
            drop(first);
            drop(held);
        });
        ended.join().unwrap();
        let start = Instant::now();
        let guard = timeout(Duration::from_secs(10), &mut waiting).await.expect("hangs");
        let waited = start.elapsed();
        assert!(waited <= ms(2_500), "waited {waited:?}");
        guard.unwrap().release().await.unwrap();
    });
}
