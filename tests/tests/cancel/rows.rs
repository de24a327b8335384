//! The table of futures.

use std::convert::Infallible;

use futures_util::future::join;
use lock_runtime::policy::LockConfig;
use lock_runtime::{MultiLock, distributed_lock, scope};
use lock_tower::{HeldLock, LockLayer};
use tower::{Layer, Service, service_fn};

use crate::prelude::*;
use crate::stage::{Kind, PERMITS, Process};

/// A future under test; it panics if it completes with an error.
pub(crate) type Under = BoxFuture<'static, ()>;

/// How a future is made.
pub(crate) enum Start {
    /// It acquires the lock.
    Acquire(fn(&Process) -> Under),
    /// It is about something that exists before.
    Prepared(fn(Process, MemoryStore) -> BoxFuture<'static, Under>),
}

/// One future.
pub(crate) struct Row {
    /// As the public API on record names it, without the path of the module.
    pub(crate) future: &'static str,
    pub(crate) kind: Kind,
    /// After how many polls it completes if no task holds the lock, if another process does, and if another task of the
    /// same process does.
    pub(crate) free: usize,
    pub(crate) held: Option<usize>,
    pub(crate) queued: Option<usize>,
    pub(crate) start: Start,
}

/// What runs under a lock: two await points.
async fn body() {
    sleep(ms(5)).await;
    sleep(ms(5)).await;
}

/// The same, as a body that returns a `Result`.
async fn tried() -> Result<(), LockError> {
    body().await;
    Ok(())
}

fn under<T: Send>(future: impl Future<Output = Result<T, LockError>> + Send + 'static) -> Under {
    Box::pin(future.map(|outcome| drop(outcome.unwrap())))
}

/// The body of the annotated function, and its lock.
#[distributed_lock(key = "a", client = client)]
async fn annotated(client: LockClient) -> Result<(), LockError> {
    body().await;
    Ok(())
}

async fn no_error(_: ()) -> Result<(), Infallible> {
    body().await;
    Ok(())
}

type Body = http_body_util::Full<bytes::Bytes>;

/// Calls a handler under a layer; `handle` is what the handler does with its lock.
async fn handled<F>(
    client: LockClient,
    handle: impl Fn(HeldLock) -> F + Clone + Send + 'static,
) -> Result<(), LockError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let layer = LockLayer::http().key("a").client(client).build().unwrap();
    let mut service = layer.layer(service_fn(move |_: http::Request<Body>| {
        let handled = handle(HeldLock::current().unwrap());
        async move {
            handled.await;
            Ok::<_, Infallible>(http::Response::<Body>::default())
        }
    }));
    drop(service.call(http::Request::post("/").body(Body::default()).unwrap()).await.unwrap());
    Ok(())
}

macro_rules! acquires {
    ($future:literal, $kind:ident, $free:literal, $held:literal, $queued:literal, |$at:ident| $make:expr) => {
        Row {
            future: $future,
            kind: Kind::$kind,
            free: $free,
            held: Some($held),
            queued: Some($queued),
            start: Start::Acquire(|$at: &Process| under($make)),
        }
    };
}

macro_rules! prepared {
    ($future:literal, $kind:ident, $polls:literal, |$at:ident, $store:ident| $make:expr) => {
        Row {
            future: $future,
            kind: Kind::$kind,
            free: $polls,
            held: None,
            queued: None,
            start: Start::Prepared(|$at: Process, $store: MemoryStore| {
                Box::pin(async move {
                    let _ = &$store;
                    let future: Under = Box::pin($make);
                    future
                })
            }),
        }
    };
}

/// A mutex of the process, held.
async fn held(at: &Process) -> LockGuard {
    at.take(Kind::Mutex).await.unwrap()
}

/// Frees the mutex by force, a little later.
fn freed_soon(store: MemoryStore) {
    tokio::spawn(async move {
        sleep(ms(50)).await;
        // Not if the future was dropped before, and its guard with it.
        let _ = store.force_release(&LockKey::new("a").unwrap(), secs(1)).await;
    });
}

/// All of them.
#[allow(clippy::async_yields_async, reason = "what a future is about exists before it is made")]
pub(crate) const ROWS: &[Row] = &[
    acquires!("Mutex::lock", Mutex, 2, 6, 3, |at| at.client.mutex("a").lock()),
    acquires!("Mutex::try_lock", Mutex, 2, 2, 1, |at| at.client.mutex("a").try_lock()),
    acquires!("Mutex::run", Mutex, 5, 9, 6, |at| at.client.mutex("a").run(body())),
    acquires!("Mutex::try_run", Mutex, 5, 9, 6, |at| at.client.mutex("a").try_run(tried())),
    acquires!("FairMutex::lock", Fair, 2, 6, 6, |at| at.client.fair_mutex("a").lock()),
    acquires!("FairMutex::try_lock", Fair, 2, 2, 2, |at| at.client.fair_mutex("a").try_lock()),
    acquires!("FairMutex::run", Fair, 5, 9, 9, |at| at.client.fair_mutex("a").run(body())),
    acquires!("FairMutex::try_run", Fair, 5, 9, 9, |at| at.client.fair_mutex("a").try_run(tried())),
    acquires!("RwLock::read", Read, 2, 6, 2, |at| at.client.rw_lock("a").read()),
    acquires!("RwLock::try_read", Read, 2, 2, 2, |at| at.client.rw_lock("a").try_read()),
    acquires!("RwLock::run_read", Read, 5, 9, 5, |at| at.client.rw_lock("a").run_read(body())),
    acquires!("RwLock::try_run_read", Read, 5, 9, 5, |at| at
        .client
        .rw_lock("a")
        .try_run_read(tried())),
    acquires!("RwLock::write", Write, 2, 6, 3, |at| at.client.rw_lock("a").write()),
    acquires!("RwLock::try_write", Write, 2, 2, 1, |at| at.client.rw_lock("a").try_write()),
    acquires!("RwLock::run_write", Write, 5, 9, 6, |at| at.client.rw_lock("a").run_write(body())),
    acquires!("RwLock::try_run_write", Write, 5, 9, 6, |at| at
        .client
        .rw_lock("a")
        .try_run_write(tried())),
    acquires!("Semaphore::acquire", Semaphore, 2, 7, 7, |at| {
        at.client.semaphore("a", PERMITS).acquire()
    }),
    acquires!("Semaphore::acquire_many", Semaphore, 2, 7, 7, |at| {
        at.client.semaphore("a", PERMITS).acquire_many(PERMITS)
    }),
    acquires!("Semaphore::try_acquire", Semaphore, 2, 2, 2, |at| {
        at.client.semaphore("a", PERMITS).try_acquire()
    }),
    acquires!("Semaphore::try_acquire_many", Semaphore, 2, 2, 2, |at| {
        at.client.semaphore("a", PERMITS).try_acquire_many(PERMITS)
    }),
    acquires!("Semaphore::run", Semaphore, 5, 10, 10, |at| {
        at.client.semaphore("a", PERMITS).run(body())
    }),
    acquires!("Semaphore::try_run", Semaphore, 5, 10, 10, |at| {
        at.client.semaphore("a", PERMITS).try_run(tried())
    }),
    acquires!("MultiLock::lock", Multi, 2, 6, 3, |at| at.client.multi_lock(["a", "b"]).lock()),
    acquires!("MultiLock::try_lock", Multi, 2, 2, 1, |at| {
        at.client.multi_lock(["a", "b"]).try_lock()
    }),
    acquires!("MultiLock::run", Multi, 5, 9, 6, |at| at.client.multi_lock(["a", "b"]).run(body())),
    acquires!("MultiLock::try_run", Multi, 5, 9, 6, |at| {
        at.client.multi_lock(["a", "b"]).try_run(tried())
    }),
    // Of two clients, one of which is a quorum: each part in turn.
    acquires!("MultiLock::lock", Quorum, 4, 8, 8, |at| {
        MultiLock::of([at.quorum.mutex("a").into(), at.client.mutex("b").into()]).lock()
    }),
    acquires!("Mutex::lock", Quorum, 2, 6, 3, |at| at.quorum.mutex("a").lock()),
    acquires!("Mutex::try_lock", Quorum, 2, 2, 1, |at| at.quorum.mutex("a").try_lock()),
    acquires!("Mutex::run", Quorum, 5, 9, 6, |at| at.quorum.mutex("a").run(body())),
    acquires!("AnyLock::lock", Fair, 2, 6, 6, |at| at
        .client
        .any_lock(LockKind::Fair, ["a"])
        .lock()),
    acquires!("AnyLock::try_lock", Multi, 2, 2, 1, |at| {
        at.client.any_lock(LockKind::Mutex, ["a", "b"]).try_lock()
    }),
    acquires!("AnyLock::run", Write, 5, 9, 6, |at| {
        at.client.any_lock(LockKind::Write, ["a"]).run(body())
    }),
    acquires!("AnyLock::try_run", Write, 5, 9, 6, |at| {
        at.client.any_lock(LockKind::Write, ["a"]).try_run(tried())
    }),
    acquires!("AnyLock::lock", Several, 4, 8, 5, |at| {
        at.client.any_lock(LockKind::Write, ["a", "b"]).lock()
    }),
    acquires!("distributed_lock", Mutex, 5, 9, 6, |at| annotated(at.client.clone())),
    acquires!("LockClient::scope", Mutex, 2, 6, 3, |at| {
        at.client.scope(at.client.mutex("a").lock())
    }),
    acquires!("scope::inherit", Mutex, 2, 6, 3, |at| scope::inherit(at.client.mutex("a").lock())),
    acquires!("LockFuture", Mutex, 5, 9, 6, |at| {
        let layer = LockLayer::new(at.client.clone(), |(): &()| LockKey::new("a").map(Some));
        layer.layer(service_fn(no_error)).call(()).map(|done| {
            done.unwrap();
            Ok(())
        })
    }),
    acquires!("HttpLockFuture", Mutex, 5, 9, 6, |at| handled(at.client.clone(), |_| body())),
    acquires!("HeldLock::release", Mutex, 4, 8, 5, |at| {
        handled(at.client.clone(), |lock| async move { lock.release().await.unwrap() })
    }),
    // The body ends the wait.
    acquires!("HeldLock::lost", Mutex, 5, 9, 6, |at| {
        handled(at.client.clone(), |lock| async move {
            assert!(timeout(ms(5), lock.lost()).await.is_err());
        })
    }),
    acquires!("CountDownLatch::reached", Latch, 2, 6, 6, |at| {
        let latch = at.client.latch("a");
        async move { latch.reached().await }
    }),
    prepared!("CountDownLatch::try_set_count", Latch, 2, |at, store| async move {
        assert!(at.client.latch("a").try_set_count(2).await.unwrap());
    }),
    prepared!("CountDownLatch::count_down", Latch, 2, |at, store| {
        at.client.latch("a").try_set_count(2).await.unwrap();
        async move { assert_eq!(at.client.latch("a").count_down().await.unwrap(), 1) }
    }),
    prepared!("CountDownLatch::count", Latch, 2, |at, store| {
        at.client.latch("a").try_set_count(2).await.unwrap();
        async move { assert_eq!(at.client.latch("a").count().await.unwrap(), 2) }
    }),
    prepared!("CountDownLatch::remove", Latch, 2, |at, store| {
        at.client.latch("a").try_set_count(2).await.unwrap();
        async move { assert!(at.client.latch("a").remove().await.unwrap()) }
    }),
    prepared!("LockGuard::release", Mutex, 2, |at, store| {
        held(&at).await.release().map(Result::unwrap)
    }),
    prepared!("LockGuard::release", Read, 2, |at, store| {
        at.take(Kind::Read).await.unwrap().release().map(Result::unwrap)
    }),
    prepared!("LockGuard::release", Fair, 2, |at, store| {
        at.take(Kind::Fair).await.unwrap().release().map(Result::unwrap)
    }),
    prepared!("LockGuard::release", Write, 2, |at, store| {
        at.take(Kind::Write).await.unwrap().release().map(Result::unwrap)
    }),
    prepared!("LockGuard::release", Multi, 2, |at, store| {
        at.take(Kind::Multi).await.unwrap().release().map(Result::unwrap)
    }),
    prepared!("LockGuard::release", Several, 2, |at, store| {
        at.take(Kind::Several).await.unwrap().release().map(Result::unwrap)
    }),
    prepared!("LockGuard::release", Quorum, 2, |at, store| {
        at.take(Kind::Quorum).await.unwrap().release().map(Result::unwrap)
    }),
    prepared!("LockGuard::release", Semaphore, 2, |at, store| {
        let permit = at.client.semaphore("a", PERMITS).acquire().await.unwrap();
        permit.release().map(Result::unwrap)
    }),
    prepared!("LockGuard::run", Mutex, 3, |at, store| {
        let guard = held(&at).await;
        async move { guard.run(body()).await.unwrap() }
    }),
    prepared!("LockGuard::run_owned", Mutex, 3, |at, store| {
        held(&at).await.run_owned(body()).map(|(_, ran)| ran.unwrap())
    }),
    // Two re-entries side by side, which take turns, and a read inside a write.
    prepared!("LockGuard::run", Mutex, 6, |at, store| {
        let (guard, client) = (held(&at).await, at.client.clone());
        let reentry = |client: LockClient| async move {
            let inner = client.mutex("a").lock().await.unwrap();
            body().await;
            inner.release().await.unwrap();
        };
        let both = join(reentry(client.clone()), reentry(client)).map(drop);
        async move { guard.run(both).await.unwrap() }
    }),
    prepared!("LockGuard::run", Write, 4, |at, store| {
        let (guard, client) = (at.take(Kind::Write).await.unwrap(), at.client.clone());
        async move {
            let read = guard.run(async { client.rw_lock("a").read().await.unwrap() }).await;
            guard.release().await.unwrap();
            read.unwrap().release().await.unwrap();
        }
    }),
    prepared!("LockGuard::extend", Mutex, 2, |at, store| {
        let guard = held(&at).await;
        async move { guard.extend(secs(60)).await.unwrap() }
    }),
    prepared!("LockGuard::extend", Fair, 2, |at, store| {
        let guard = at.take(Kind::Fair).await.unwrap();
        async move { guard.extend(secs(60)).await.unwrap() }
    }),
    prepared!("LockGuard::extend", Read, 2, |at, store| {
        let guard = at.take(Kind::Read).await.unwrap();
        async move { guard.extend(secs(60)).await.unwrap() }
    }),
    prepared!("LockGuard::extend", Write, 2, |at, store| {
        let guard = at.take(Kind::Write).await.unwrap();
        async move { guard.extend(secs(60)).await.unwrap() }
    }),
    prepared!("LockGuard::extend", Multi, 2, |at, store| {
        let guard = at.take(Kind::Multi).await.unwrap();
        async move { guard.extend(secs(60)).await.unwrap() }
    }),
    prepared!("LockGuard::extend", Several, 2, |at, store| {
        let guard = at.take(Kind::Several).await.unwrap();
        async move { guard.extend(secs(60)).await.unwrap() }
    }),
    prepared!("LockGuard::extend", Quorum, 2, |at, store| {
        let guard = at.take(Kind::Quorum).await.unwrap();
        async move { guard.extend(secs(60)).await.unwrap() }
    }),
    // The watchdog finds out.
    prepared!("LockGuard::lost", Mutex, 3, |at, store| {
        let guard = held(&at).await;
        freed_soon(store);
        async move { drop(guard.lost().await) }
    }),
    prepared!("LockWatch::lost", Mutex, 3, |at, store| {
        let guard = held(&at).await;
        freed_soon(store);
        async move { drop(guard.watch().lost().await) }
    }),
    prepared!("Admin::inspect", Mutex, 2, |at, store| async move {
        at.client.admin().inspect("a").await.unwrap();
    }),
    prepared!("Admin::force_release", Mutex, 2, |at, store| {
        let guard = held(&at).await;
        async move {
            assert!(at.client.admin().force_release("a").await.unwrap());
            drop(guard);
        }
    }),
    prepared!("LockClient::ready", Mutex, 2, |at, store| async move {
        at.client.ready().await.unwrap();
    }),
    prepared!("Admin::servers", Mutex, 1, |at, store| async move {
        drop(at.client.admin().servers().await.unwrap());
    }),
    prepared!("Admin::missing_rights", Mutex, 1, |at, store| async move {
        drop(at.client.admin().missing_rights().await.unwrap());
    }),
    prepared!("LockClient::shutdown", Client, 2, |at, store| {
        drop(held(&at).await);
        async move { assert!(at.client.shutdown(secs(1)).await.is_clean()) }
    }),
    prepared!("LockClient::grace_over", Client, 2, |at, store| {
        let (guard, client) = (held(&at).await, at.client.clone());
        tokio::spawn(async move {
            sleep(ms(5)).await;
            client.shutdown(ms(5)).await
        });
        async move {
            at.client.grace_over().await;
            drop(guard);
        }
    }),
    prepared!("LockClient::from_config", Client, 1, |at, store| {
        let config = LockConfig::from_toml("lock.url = 'memory:'").unwrap();
        async move { drop((at, LockClient::from_config(config).await.unwrap())) }
    }),
    prepared!("LockClientBuilder::connect_config", Client, 1, |at, store| {
        let config = LockConfig::from_toml("lock.url = 'memory:'").unwrap();
        async move { drop((at, LockClient::builder().connect_config(config).await.unwrap())) }
    }),
];
