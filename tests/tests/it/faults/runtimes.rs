//! A guard in a variable is renewed, and one that is dropped is released, although the runtime that used the client first
//! has ended, or is not driven any more (S-10, S-20).

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::prelude::*;

mod under_way;

/// Its third is longer than it takes to find out, and a busy machine keeps nothing as long as the rest.
const LEASE: Duration = secs(12);

/// What becomes of the runtime that has used the client first.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// It is dropped.
    Ends,
    /// It is kept, and nothing polls its tasks.
    Rests,
}

/// A client of the server or, without one, of the store in memory.
async fn client_of(url: Option<&str>, memory: MemoryStore) -> LockClient {
    let builder = LockClient::builder().options(watched(LEASE));
    match url {
        Some(url) => builder.connect(url).await.unwrap(),
        None => builder.store(memory).unwrap(),
    }
}

/// A client whose tasks are in a runtime of its own, which goes on for now.
struct First {
    client: LockClient,
    stop: oneshot::Sender<Then>,
    thread: std::thread::JoinHandle<Option<Runtime>>,
}

impl First {
    async fn start(url: Option<String>, memory: MemoryStore) -> Self {
        Self::of(async move || client_of(url.as_deref(), memory).await).await
    }

    async fn of<F: Future<Output = LockClient>>(make: impl FnOnce() -> F + Send + 'static) -> Self {
        let (made, client) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let then = runtime.block_on(async {
                let client = make().await;
                client.mutex("first").lock().await.unwrap().release().await.unwrap();
                let _ = made.send(client);
                stopped.await.unwrap()
            });
            matches!(then, Then::Rests).then_some(runtime)
        });
        Self { client: client.await.unwrap(), stop, thread }
    }

    /// Ends or rests the runtime; the result is to be kept.
    async fn then(self, then: Then) -> (LockClient, Option<Runtime>) {
        self.stop.send(then).unwrap();
        let rest = tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap();
        (self.client, rest)
    }
}

/// Drops a runtime where that may block.
async fn dispose(runtime: Option<Runtime>) {
    tokio::task::spawn_blocking(|| drop(runtime)).await.unwrap();
}

async fn keeps(server: Option<&RedisServer>, then: Then) {
    let what = format!("{then:?} over {}", if server.is_some() { "redis" } else { "memory" });
    let memory = MemoryStore::new();
    let url = server.map(RedisServer::url);
    let other = client_of(url.as_deref(), memory.peer()).await;
    let name = |what: &str| format!("{what} {then:?}");
    let first = First::start(url, memory.peer()).await;

    let kept = first.client.mutex(name("kept")).lock().await.unwrap();
    let dropped = first.client.mutex(name("dropped")).lock().await.unwrap();
    let sync = first.client.clone();
    let thread = name("thread");
    let (give, guard) = oneshot::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let blocking = std::thread::spawn(move || {
        let guard = sync.mutex(&thread).blocking_lock().unwrap();
        give.send(guard.watch()).unwrap();
        let _ = wait.recv();
        assert!(!guard.is_lost());
        guard.blocking_release().unwrap();
    });
    let of_thread = guard.await.unwrap();

    let (client, rest) = first.then(then).await;
    let end = Instant::now() + LEASE * 2 + secs(1);
    drop(dropped);
    let free = other.mutex(name("dropped")).wait(LEASE * 3 / 4).lock();
    drop(free.await.unwrap_or_else(|error| panic!("{what}: a dropped guard: {error}")));
    while Instant::now() < end {
        assert!(!kept.is_lost(), "{what}: the guard was lost");
        assert!(!of_thread.is_lost(), "{what}: the guard of a thread was lost");
        sleep(ms(100)).await;
    }
    assert!(other.mutex(name("kept")).try_lock().await.unwrap().is_none(), "{what}");
    // And the client goes on.
    client.mutex(name("new")).lock().await.unwrap().release().await.unwrap();
    kept.release().await.unwrap();
    done.send(()).unwrap();
    tokio::task::spawn_blocking(|| blocking.join()).await.unwrap().unwrap();
    dispose(rest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_are_renewed_when_the_first_runtime_has_ended_or_is_not_driven() {
    let server = RedisServer::start().await;
    let of = async |then| tokio::join!(keeps(Some(&server), then), keeps(None, then));
    tokio::join!(of(Then::Ends), of(Then::Rests));
}

/// A runtime that rested takes part again, and what took its place may end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_was_not_driven_can_be_used_elsewhere() {
    let server = RedisServer::start().await;
    let first = First::start(Some(server.url()), MemoryStore::new()).await;
    let (client, rest) = first.then(Then::Rests).await;
    // Long enough that its silence is no accident.
    sleep(secs(3)).await;
    let lock = client.mutex("late");
    timeout(SOON, lock.lock()).await.expect("it waits on").unwrap().release().await.unwrap();
    let of_rest = client.mutex("again");
    let rest = tokio::task::spawn_blocking(move || {
        let rest = rest.unwrap();
        rest.block_on(async { of_rest.lock().await.unwrap().release().await.unwrap() });
        Some(rest)
    });
    dispose(rest.await.unwrap()).await;
    lock.lock().await.unwrap().release().await.unwrap();
}

// Nothing else uses the client after its first runtime: a renewal brings the connection back.
test_with!(renewals_alone_go_on, RedisServer::start(), async |server| {
    let first = First::start(Some(server.url()), MemoryStore::new()).await;
    let kept = first.client.mutex("kept").lock().await.unwrap();
    let (_client, _rest) = first.then(Then::Ends).await;
    sleep(LEASE + secs(1)).await;
    assert!(!kept.is_lost());
    kept.release().await.unwrap();
});

/// A runtime that rested, and does not use the client again, keeps its holds when the one ends that took its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_rested_watches_its_successor() {
    let first = First::start(None, MemoryStore::new()).await;
    let (client, rest) = first.then(Then::Rests).await;
    let driven = tokio::task::spawn_blocking(move || {
        let rest = rest.unwrap();
        let second = Builder::new_current_thread().enable_all().build().unwrap();
        let kept = second.block_on(async {
            let kept = client.mutex("kept").lock().await.unwrap();
            // Until its tasks have taken the place of those that rest.
            sleep(secs(5)).await;
            kept
        });
        rest.block_on(async { sleep(ms(500)).await });
        drop(second);
        rest.block_on(async { sleep(LEASE + secs(1)).await });
        assert!(!kept.is_lost());
        rest.block_on(kept.release()).unwrap();
    });
    driven.await.unwrap();
}
