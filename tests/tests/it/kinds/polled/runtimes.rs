//! Waiters beside tasks of another runtime, which is blocked or has ended.

use std::sync::mpsc;

use tokio::runtime::Runtime;

use crate::kinds::polled::*;

/// A waiter of one kind behind a holder of another.
fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.into_iter().map(|kind| (kind, kind)).chain([("read", "write"), ("write", "read")])
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

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
    let guard = timeout(secs(10), client.mutex("k").lock()).await.expect("hangs");
    let waited = start.elapsed();
    assert!(waited <= patience(ms(2_500)), "waited {waited:?}");
    end.send(()).unwrap();
    guard.unwrap().release().await.unwrap();
    tokio::task::spawn_blocking(move || blocked.join().unwrap()).await.unwrap();
}

/// S-20, S-34: what is let go after the runtime of the client's tasks has ended is given back for whoever
/// waits for it already, in this process or another one, where no task asks for another lock.
#[test]
fn an_ended_runtime_is_passed_over() {
    for (holder, waiter) in pairs() {
        let [client, _] = clients(holder, ms(30_000));
        let first = runtime();
        let held = first.block_on(lock(&client, holder, "k")).unwrap();
        runtime().block_on(async {
            let mut waiting = polled_once(lock(&client, waiter, "k")).await;
            // It listens and sleeps by now.
            assert!(timeout(ms(50), &mut waiting).await.is_err());
            // Outside of any runtime, so that nothing starts the client's tasks anew.
            let ended = std::thread::spawn(move || {
                drop(first);
                drop(held);
            });
            ended.join().unwrap();
            let start = Instant::now();
            let guard = timeout(ms(10_000), &mut waiting).await;
            let guard = guard.unwrap_or_else(|_| panic!("{waiter} behind {holder} hangs"));
            let waited = start.elapsed();
            assert!(waited <= patience(ms(2_500)), "{waiter} behind {holder} waited {waited:?}");
            guard.unwrap().release().await.unwrap();
        });
    }
}

/// What a client keeps running in a runtime is a task or two, however often runtimes take turns.
#[test]
fn runtimes_that_take_turns_have_few_tasks() {
    let (client, runtimes) = (LockClient::in_memory(), [(); 3].map(|()| runtime()));
    for _ in 0..20 {
        for runtime in &runtimes {
            let pair = async { client.mutex("k").lock().await.unwrap().release().await };
            runtime.block_on(pair).unwrap();
        }
    }
    let tasks = runtimes.each_ref().map(|runtime| runtime.metrics().num_alive_tasks());
    assert!(tasks.iter().all(|tasks| *tasks <= 2), "{tasks:?}");
}
