//! Fault 12: a task moves from thread to thread while it holds a lock; another task of the same thread asks for it.
//!
//! - Promised: a hold belongs to its guard, never to a thread or task. Only what runs inside of it re-enters; any other
//!   task waits, and a guard can be released from wherever it is.
//! - Seen: twenty re-entries on changing threads and one of an inherited task; any other task timed out.

use lock_runtime::scope;
use tokio::runtime::Handle;
use tokio::task::LocalSet;

use crate::prelude::*;

test_with!(a_hold_belongs_to_its_guard, RedisServer::start(), async |server| {
    let client = LockClient::connect(&server.url()).await.unwrap();
    for job in [Job::Mutex, Job::Fair, Job::Write, Job::Pair] {
        let name = own_name(job);
        let acquire = |options: LockOptions| {
            let (client, name) = (client.clone(), name.clone());
            async move { job.acquire(&client, &name, options).await }
        };
        // A server that is busy may not answer in that time, which is no grant either.
        let short = watched(LEASE).wait(ms(100));
        let guard = acquire(watched(LEASE)).await.unwrap();
        let moving = tokio::spawn(async move { guard });
        let guard = moving.await.unwrap();
        let inside = async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
                acquire(short.clone()).await?.release().await?;
            }
            tokio::spawn(scope::inherit(acquire(short.clone()))).await.unwrap()?.release().await?;
            let outside = tokio::spawn(acquire(short.clone())).await.unwrap();
            assert!(outside.is_err(), "{job:?}: another task has it");
            Ok::<_, LockError>(())
        };
        // On the thread that polls the code inside, in turn with it.
        let same_thread = LocalSet::new();
        let outside = same_thread.spawn_local(acquire(short.clone()));
        let ran = same_thread.run_until(guard.run(inside)).await;
        let outside = same_thread.run_until(outside).await.unwrap();
        assert!(outside.is_err(), "{job:?}: another task has it");
        ran.unwrap().unwrap();
        let runtime = Handle::current();
        let thread = std::thread::spawn(move || runtime.block_on(guard.release()));
        tokio::task::spawn_blocking(|| thread.join()).await.unwrap().unwrap().unwrap();
        acquire(short).await.unwrap().release().await.unwrap();
    }
});
