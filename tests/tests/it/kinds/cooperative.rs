//! Futures that are ready at once give the other tasks of a thread their turn (S-34).

use crate::prelude::*;

/// More turns than a task has before it yields, and so few that a loop which never yields ends, too.
const TURNS: usize = 20_000;

/// Runs a loop beside another task of the same thread, which must get turns meanwhile.
async fn lets_others_run<T>(what: &str, mut turn: impl AsyncFnMut() -> T) {
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let other = lock_tests::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..TURNS {
        turn().await;
        if turns.load(Ordering::SeqCst) > 3 {
            break;
        }
    }
    other.abort();
    assert!(turns.load(Ordering::SeqCst) > 3, "{what} starves the other tasks of its thread");
}

/// The loop is a task, as those of a program are: what `block_on` polls itself is polled in turns with the tasks.
macro_rules! task {
    ($what:expr, $client:ident, $turn:expr) => {{
        let $client = LockClient::in_memory();
        let looped = async move { lets_others_run($what, $turn).await };
        tokio::task::LocalSet::new()
            .run_until(async { tokio::task::spawn_local(looped).await.unwrap() })
            .await;
    }};
}

#[tokio::test]
async fn a_loop_over_a_free_lock_lets_others_run() {
    task!("acquire and release", client, async || {
        client.mutex("m").lock().await.unwrap().release().await.unwrap();
    });
    task!("acquire and drop", client, async || {
        drop(client.mutex("m").lock().await.unwrap());
    });
    task!("a try", client, async || client.mutex("m").try_lock().await.unwrap());
    task!("run", client, async || client.mutex("m").run(async {}).await.unwrap());
    task!("fair", client, async || {
        client.fair_mutex("f").lock().await.unwrap().release().await.unwrap();
    });
    task!("read", client, async || client
        .rw_lock("r")
        .read()
        .await
        .unwrap()
        .release()
        .await
        .unwrap());
    task!("write", client, async || {
        client.rw_lock("r").write().await.unwrap().release().await.unwrap();
    });
    task!("permit", client, async || {
        let semaphore = client.semaphore("s", 1);
        semaphore.acquire().await.unwrap().release().await.unwrap();
    });
    task!("several", client, async || {
        client.multi_lock(["a", "b"]).lock().await.unwrap().release().await.unwrap();
    });
}

#[tokio::test]
async fn a_loop_over_a_held_lock_lets_others_run() {
    task!("re-entry", client, async || {
        let nested = client.mutex("m");
        let guard = client.mutex("m").lock().await.unwrap();
        guard.run(async { nested.lock().await.unwrap().release().await }).await.unwrap().unwrap();
    });
    task!("a try", client, async || {
        let _held = client.mutex("m").lock().await.unwrap();
        assert!(client.mutex("m").try_lock().await.unwrap().is_none());
    });
    task!("release", client, async || {
        // The acquires alone are not what yields.
        let acquires = (0..8).map(|n| client.mutex(format!("m{n}")).lock());
        for guard in tokio::task::unconstrained(join_all(acquires)).await {
            guard.unwrap().release().await.unwrap();
        }
    });
    task!("extend", client, async || {
        let guard = tokio::task::unconstrained(client.mutex("m").lock()).await.unwrap();
        guard.extend(secs(40)).await.unwrap();
        tokio::task::unconstrained(guard.release()).await.unwrap();
    });
}

#[tokio::test]
async fn a_loop_over_a_latch_lets_others_run() {
    task!("wait", client, async || client.latch("l").reached().await.unwrap());
    task!("count", client, async || client.latch("l").count().await.unwrap());
    task!("count down", client, async || client.latch("l").count_down().await.unwrap());
    task!("inspect", client, async || client.admin().inspect("l").await.unwrap());
    task!("force release", client, async || client.admin().force_release("l").await.unwrap());
}
