//! Futures that are ready at once give the other tasks of a thread their turn (S-34).

use crate::prelude::*;

/// More turns than a task has before it yields, and so few that a loop which never yields ends, too.
const TURNS: usize = 20_000;

/// Rows of loops, each beside another task of the same thread, which must get turns meanwhile.
macro_rules! lets_others_run {
    ($($test:ident: |$client:ident| $turn:expr;)*) => {$(
        #[tokio::test]
        async fn $test() {
            let $client = LockClient::in_memory();
            let turns = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&turns);
            let other = async move {
                loop {
                    counted.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            };
            // A task, as those of a program are: what `block_on` polls itself is polled in turns with the tasks.
            let looped = async move {
                let _other = lock_tests::spawn(other);
                for _ in 0..TURNS {
                    $turn;
                    if turns.load(Ordering::SeqCst) > 3 {
                        return;
                    }
                }
                panic!("it starves the other tasks of its thread");
            };
            let tasks = tokio::task::LocalSet::new();
            tasks.run_until(async { tokio::task::spawn_local(looped).await.unwrap() }).await;
        }
    )*};
}

async fn release(guard: Result<LockGuard, LockError>) {
    guard.unwrap().release().await.unwrap();
}

lets_others_run! {
    acquire_and_release: |client| release(client.mutex("m").lock().await).await;
    acquire_and_drop: |client| drop(client.mutex("m").lock().await.unwrap());
    tries: |client| client.mutex("m").try_lock().await.unwrap();
    run: |client| client.mutex("m").run(async {}).await.unwrap();
    fair: |client| release(client.fair_mutex("f").lock().await).await;
    read: |client| release(client.rw_lock("r").read().await).await;
    write: |client| release(client.rw_lock("r").write().await).await;
    permits: |client| release(client.semaphore("s", 1).acquire().await).await;
    several: |client| release(client.multi_lock(["a", "b"]).lock().await).await;
    re_entry: |client| {
        let lock = client.mutex("m");
        let guard = lock.lock().await.unwrap();
        guard.run(async { release(lock.lock().await).await }).await.unwrap();
    };
    refused_tries: |client| {
        let _held = client.mutex("m").lock().await.unwrap();
        assert!(client.mutex("m").try_lock().await.unwrap().is_none());
    };
    // The acquires alone are not what yields.
    releases: |client| {
        let acquires = (0..8).map(|n| client.mutex(format!("m{n}")).lock());
        for guard in tokio::task::unconstrained(join_all(acquires)).await {
            release(guard).await;
        }
    };
    extensions: |client| {
        let guard = tokio::task::unconstrained(client.mutex("m").lock()).await.unwrap();
        guard.extend(secs(40)).await.unwrap();
        tokio::task::unconstrained(guard.release()).await.unwrap();
    };
    waits_for_an_open_latch: |client| client.latch("l").reached().await.unwrap();
    counts: |client| client.latch("l").count().await.unwrap();
    counts_down: |client| client.latch("l").count_down().await.unwrap();
    inspections: |client| client.admin().inspect("l").await.unwrap();
    forced_releases: |client| client.admin().force_release("l").await.unwrap();
}
