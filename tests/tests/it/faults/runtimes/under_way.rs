//! What the tasks of a client have asked of the store when their runtime is not driven any more: the tasks that take
//! their place ask again, and nothing stays counted (S-10, S-20, S-27).

use super::*;
use crate::support::troubled::{Trouble, Troubled};

/// A client whose tasks are in a runtime of its own, another of the same store, and what makes the store silent for the first.
struct World {
    first: First,
    other: LockClient,
    store: Troubled,
}

impl World {
    async fn new(server: Option<&RedisServer>) -> Self {
        let memory = MemoryStore::new();
        let url = server.map(RedisServer::url);
        let other = client_of(url.as_deref(), memory.peer()).await;
        let (tell, store) = oneshot::channel();
        let make = async move || {
            let builder = LockClient::builder().options(watched(LEASE)).handoff_window(secs(1));
            let (store, builder) = match url {
                Some(url) => (Troubled::new(RedisStore::connect(&url).await.unwrap()), builder),
                // A call that waits for a release shows; a connection would find out late that it rests.
                None => (Troubled::new(memory), builder.command_timeout(LEASE * 4)),
            };
            tell.send(store.clone()).unwrap();
            builder.store_patience(LEASE * 8).store(store).unwrap()
        };
        let first = First::of(make).await;
        Self { first, other, store: store.await.unwrap() }
    }

    /// Drops a guard of the lock "dropped". Then the runtime rests, which has asked the store for the release, in vain; the
    /// result is to be kept.
    async fn rests_in_a_release(self) -> (LockClient, Option<Runtime>, LockClient) {
        let Self { first, other, store } = self;
        let guard = first.client.mutex("dropped").lock().await.unwrap();
        store.set(Trouble::Unheard);
        drop(guard);
        store.has_heard_nothing().await;
        let (client, rest) = first.then(Then::Rests).await;
        store.set(Trouble::None);
        (client, rest, other)
    }
}

async fn is_released(server: Option<&RedisServer>) {
    let what = if server.is_some() { "redis" } else { "memory" };
    let (client, rest, other) = World::new(server).await.rests_in_a_release().await;
    let free = other.mutex("dropped").wait(LEASE * 3 / 4).lock().await;
    let guard = free.unwrap_or_else(|error| panic!("{what}: it stays held: {error}"));
    // Not after a release that it waits for. A call may find that the connection rests, too.
    let lock = client.mutex("dropped");
    let tries = async || lock.try_lock().await.is_ok_and(|taken| taken.is_none());
    eventually(LEASE, "it waits for no release", tries).await;
    guard.release().await.unwrap();
    let report = client.shutdown(SOON).await;
    assert_eq!((report.still_held, report.not_given_back), (0, 0), "{what}");
    dispose(rest).await;
}

test_with!(a_release_under_way_is_taken_over, RedisServer::start(), async |server| {
    tokio::join!(is_released(Some(&server)), is_released(None));
});

/// The runtime is driven again after another has taken its place, and hears nothing that is for that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_are_not_left_to_a_task_that_was_replaced() {
    let (client, rest, other) = World::new(None).await.rests_in_a_release().await;
    drop(client.mutex("later").lock().await.unwrap());
    let lock = other.mutex("later").wait(LEASE * 3 / 4);
    lock.lock().await.unwrap().release().await.unwrap();

    let (driven, is_driven) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let driving = tokio::task::spawn_blocking(move || {
        let rest = rest.unwrap();
        rest.block_on(async {
            // Its tasks were woken before, and run meanwhile.
            for _ in 0..20 {
                sleep(ms(5)).await;
            }
            driven.send(()).unwrap();
            stopped.await.unwrap();
        });
        Some(rest)
    });
    is_driven.await.unwrap();
    for turn in 0..6 {
        drop(client.mutex("turns").lock().await.unwrap());
        // Sooner than a keeper would find out.
        let free = other.mutex("turns").wait(secs(2)).lock().await;
        free.unwrap_or_else(|error| panic!("turn {turn}: {error}")).release().await.unwrap();
    }
    stop.send(()).unwrap();
    dispose(driving.await.unwrap()).await;
}

/// The renewal that was under way does not count any more. In one thread: its log is read.
#[tokio::test]
async fn a_renewal_under_way_is_taken_over() {
    let World { first, other, store } = World::new(None).await;
    let guard = first.client.mutex("kept").lock().await.unwrap();
    store.set(Trouble::Unheard);
    store.has_heard_nothing().await;
    let log = Log::start_at(tracing::Level::WARN);
    let (client, rest) = first.then(Then::Rests).await;
    store.set(Trouble::None);
    let end = Instant::now() + LEASE * 2;
    while Instant::now() < end {
        assert!(!guard.is_lost());
        sleep(ms(100)).await;
    }
    assert_eq!(log.lines_with("renewal has no answer yet"), Vec::<String>::new());
    assert!(other.mutex("kept").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    drop(client);
    dispose(rest).await;
}
