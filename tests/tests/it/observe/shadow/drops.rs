//! Shadow mode (`enforce`): a look that is given up wherever it stands, or whose answer gets lost, leaves
//! nothing; one that is refused for good says nothing about the next.

use crate::observe::shadow::*;

fn locks(client: &LockClient) -> Vec<AnyLock> {
    use LockKind::{Fair, Mutex, Read, Semaphore, Write};
    let kinds = [Mutex, Fair, Read, Write, Semaphore(1)];
    let locks = kinds.into_iter().enumerate();
    let mut locks: Vec<_> =
        locks.map(|(at, kind)| client.any_lock(kind, [format!("k{at}")])).collect();
    locks.push(client.any_lock(Mutex, ["a", "b"]));
    locks.push(client.any_lock(Fair, ["c", "d"]));
    locks
}

/// No task has it, and no release is under way.
async fn free_soon(client: &LockClient, locks: [&AnyLock; 2]) {
    let is_free = async || {
        for lock in locks {
            match lock.try_lock().await.unwrap() {
                Some(guard) => guard.release().await.unwrap(),
                None => return false,
            }
        }
        client.admin().held().is_empty()
    };
    eventually(SOON, "it is free", is_free).await;
}

#[tokio::test]
async fn a_look_that_is_dropped_or_not_answered_leaves_nothing() {
    let (server, proxy, client) = far_world().await;
    let other = connect(&server.url()).await;
    for (lock, theirs) in locks(&client).into_iter().zip(locks(&other)) {
        let look = || async { lock.shadow_lock().await?.release().await };
        let free = async |_| free_soon(&client, [&lock, &theirs]).await;
        let (polls, outcome) = drop_at_every_await(look, free).await;
        outcome.unwrap();
        assert!(polls > 2, "{polls} polls, {lock:?}");
        // It has not been taken for silence either.
        look().await.unwrap();
        proxy.drop_next_reply();
        let start = Instant::now();
        assert!(lock.shadow_lock().await.is_err());
        assert!(start.elapsed() < patience(A_LOOK * 4), "{:?}", start.elapsed());
        free_soon(&client, [&lock, &theirs]).await;
        eventually(NOTICED, "the store is looked at", async || look().await.is_ok()).await;
    }
    assert!(client.shutdown(SOON).await.is_clean());
}

/// Only silence is a reason not to ask again: a store that refuses does so at once.
#[tokio::test]
async fn a_refusal_is_no_silence() {
    let (server, client) = world().await;
    let lock = client.any_lock(LockKind::Mutex, ["job"]);
    lock.shadow_lock().await.unwrap().release().await.unwrap();
    let memory = async |bytes| server.client().cmd(&["CONFIG", "SET", "maxmemory", bytes]).await;
    for _ in 0..3 {
        memory("1").await;
        assert!(lock.shadow_lock().await.is_err());
        memory("0").await;
        let look = timeout(secs(1), lock.shadow_lock()).await.expect("it waits");
        look.unwrap().release().await.unwrap();
    }
}
