//! A task that the code inside of a hold happens to poll is not inside of the hold (S-6).

use lock_runtime::{Mutex, scope};
use tokio::task::LocalSet;

use crate::prelude::*;

/// Whether the caller is inside of a hold, and whether it gets the lock at once.
async fn is_inside(lock: &Mutex) -> (bool, bool) {
    let sees = LockGuard::current().is_some();
    (sees, lock.try_lock().await.unwrap().is_some())
}

const INSIDE: (bool, bool) = (true, true);
const OUTSIDE: (bool, bool) = (false, false);

#[tokio::test]
async fn tasks_of_a_local_set_inherit_nothing() {
    let client = LockClient::in_memory();
    let (lock, set) = (client.mutex("local"), LocalSet::new());
    let guard = lock.lock().await.unwrap();
    let stranger = lock.clone();
    let stranger = set.spawn_local(async move { is_inside(&stranger).await });
    let (own, child) = (lock.clone(), lock.clone());
    let body = set.run_until(async {
        // The body itself is inside; of its tasks, those that are told to be.
        let told = scope::inherit(async move { is_inside(&child).await });
        let told = tokio::task::spawn_local(told);
        let child = own.clone();
        let untold = tokio::task::spawn_local(async move { is_inside(&child).await });
        (is_inside(&own).await, told.await.unwrap(), untold.await.unwrap(), stranger.await.unwrap())
    });
    let seen = guard.run(body).await.unwrap();
    assert_eq!(seen, (INSIDE, INSIDE, OUTSIDE, OUTSIDE));
    guard.release().await.unwrap();
}

/// A task that is told to be inside is so wherever it is polled, and so is what runs inside of it.
#[tokio::test]
async fn what_was_inherited_is_inside_wherever_it_is_polled() {
    let client = LockClient::in_memory();
    let (lock, set) = (client.mutex("told"), LocalSet::new());
    let guard = lock.lock().await.unwrap();
    let child = lock.clone();
    let mut told = None;
    let body = guard.run(async {
        let run = async move {
            let nested = child.lock().await.unwrap();
            nested.run(is_inside(&child)).await.unwrap()
        };
        told = Some(set.spawn_local(scope::inherit(run)));
    });
    body.await.unwrap();
    assert_eq!(set.run_until(told.unwrap()).await.unwrap(), INSIDE);
    guard.release().await.unwrap();
}

/// Whether the caller's client is the one that holds "taken".
async fn uses_its_client() -> bool {
    let Some(client) = LockClient::current() else { return false };
    client.mutex("taken").try_lock().await.unwrap().is_none()
}

/// A client is not exclusive: all tasks that the code inside polls use it, also inside of their own holds and in what they start.
#[tokio::test]
async fn tasks_of_a_local_set_use_its_client() {
    let client = LockClient::in_memory();
    let (lock, set) = (client.mutex("own"), LocalSet::new());
    let taken = client.mutex("taken").lock().await.unwrap();
    let task = set.spawn_local(async move {
        let told = tokio::spawn(scope::inherit(uses_its_client()));
        let inside = lock.run(uses_its_client()).await.unwrap();
        (uses_its_client().await, inside, told.await.unwrap())
    });
    let seen = client.scope(set.run_until(task)).await.unwrap();
    assert_eq!(seen, (true, true, true));
    taken.release().await.unwrap();
}

/// A body on a thread may drive a runtime: what it blocks on is its own code, and the tasks there are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_runtime_in_a_blocking_body_inherit_nothing() {
    let server = RedisServer::start().await;
    let url = server.url();
    let drive = move || {
        let client = LockClient::builder().connect_blocking(&url).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shared = runtime.block_on(LockClient::connect(&url)).unwrap();
        let outer = client.mutex("blocked");
        let seen = outer.run_blocking(|_| {
            let lock = shared.mutex("blocked");
            let task = runtime.spawn(async move { is_inside(&lock).await });
            runtime.block_on(async { (LockGuard::current().is_some(), task.await.unwrap()) })
        });
        seen.unwrap()
    };
    // A thread of the runtime's has a task, and another one has none.
    let pooled = tokio::task::spawn_blocking(drive.clone());
    assert_eq!(pooled.await.unwrap(), (true, OUTSIDE));
    let plain = tokio::task::spawn_blocking(|| std::thread::spawn(drive).join().unwrap());
    assert_eq!(plain.await.unwrap(), (true, OUTSIDE));
}
