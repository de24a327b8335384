//! Read/write locks on Redis (S-6, S-17, S-27).

mod downgrade;
mod handed;
mod kept;
mod limits;
mod order;
mod outage;
mod peers;
mod phases;
mod sharing;
mod tries;
mod turns;
mod wire;

use crate::prelude::*;

/// More than anything here takes on a busy machine, unless a test says so.
const PROMPTLY: Duration = secs(5);

/// A waiter who is told goes on well within this. What could stand in for being told takes longer:
/// the poll cap, a lease, a writer's announcement or a third of one.
fn at_once() -> Duration {
    lock_tests::patience(ms(800))
}

type Waiter = JoinHandle<Result<LockGuard, LockError>>;

fn reading(client: &LockClient, name: &str) -> Waiter {
    lock_tests::spawn(client.rw_lock(name).read())
}

fn writing(client: &LockClient, name: &str) -> Waiter {
    lock_tests::spawn(client.rw_lock(name).write())
}

/// The guard that a waiter gets within `bound`.
async fn got(waiter: Waiter, bound: Duration) -> LockGuard {
    let result = timeout(bound, waiter).await.expect("still waiting").unwrap();
    result.unwrap()
}

/// The guards that readers get, each within `bound`.
async fn all_got(readers: impl IntoIterator<Item = Waiter>, bound: Duration) -> Vec<LockGuard> {
    join_all(readers.into_iter().map(|reader| got(reader, bound))).await
}

/// Waits until so many writers have announced themselves.
async fn announced(server: &RedisServer, name: &str, writers: u64) {
    let set = format!("redisson_rwlock_writers:{{{name}}}");
    soon!(
        &format!("{writers} writers wait for {name}"),
        server.client().get::<u64>(&["ZCARD", &set]).await == writers
    );
}

/// Waits until a reader is due after the writer that has the lock.
async fn due(server: &RedisServer, name: &str) {
    let readers = format!("redisson_rwlock_due_readers:{{{name}}}");
    soon!("a reader waits in the store", server.client().exists(&readers).await);
}

/// Waits until so many connections listen for the lock.
async fn listening(server: &RedisServer, name: &str, count: u64) {
    server.wait_for_subscribers(&format!("redisson_rwlock:{{{name}}}"), count).await;
}

/// The holds that the lock's hash shows, without its mode.
async fn holds(server: &RedisServer, name: &str) -> Vec<(String, String)> {
    let hash = server.client().hgetall(name).await;
    hash.into_iter().filter(|(field, _)| field != "mode").collect()
}
