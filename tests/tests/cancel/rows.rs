//! The table of futures.

use std::convert::Infallible;

use futures_util::future::join;
use lock_runtime::policy::LockConfig;
use lock_runtime::{CountDownLatch, MultiLock, distributed_lock, scope};
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
    Prepared(fn(Process, MemoryStore, Kind) -> BoxFuture<'static, Under>),
}

/// One future.
pub(crate) struct Row {
    /// As the public API on record names it, without the path of the module.
    pub(crate) future: &'static str,
    pub(crate) kind: Kind,
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

/// Rows of futures that acquire: the methods of a lock, or one future by its name.
macro_rules! acquires {
    ($($lock:ident $kind:ident, |$at:ident| $make:expr => $($method:ident($($arg:expr)?))+;)*) => {
        &[$($(Row {
            future: concat!(stringify!($lock), "::", stringify!($method)),
            kind: Kind::$kind,
            start: Start::Acquire(|$at: &Process| under($make.$method($($arg)?))),
        },)+)*]
    };
    ($($future:literal $kind:ident, |$at:ident| $make:expr;)*) => {
        &[$(Row {
            future: $future,
            kind: Kind::$kind,
            start: Start::Acquire(|$at: &Process| under($make)),
        },)*]
    };
}

/// Rows of futures about something that exists before, each for some kinds of lock.
macro_rules! prepared {
    ($($future:literal [$($kind:ident)+], |$at:ident, $store:ident, $of:ident| $make:expr;)*) => {
        &[$($(Row {
            future: $future,
            kind: Kind::$kind,
            start: Start::Prepared(|$at: Process, $store: MemoryStore, $of: Kind| {
                Box::pin(async move {
                    let _ = (&$store, $of);
                    let future: Under = Box::pin($make);
                    future
                })
            }),
        },)+)*]
    };
}

/// A mutex of the process, held.
async fn held(at: &Process) -> LockGuard {
    at.take(Kind::Mutex).await.unwrap()
}

/// A latch of the process, set to two.
async fn set(at: &Process) -> CountDownLatch {
    let latch = at.client.latch("a");
    latch.try_set_count(2).await.unwrap();
    latch
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
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    LOCKS.iter().chain(CALLS).chain(PREPARED)
}

const LOCKS: &[Row] = acquires! {
    Mutex Mutex, |at| at.client.mutex("a") => lock() try_lock() run(body()) try_run(tried());
    Mutex Quorum, |at| at.quorum.mutex("a") => lock() try_lock() run(body());
    FairMutex Fair, |at| at.client.fair_mutex("a") => lock() try_lock() run(body()) try_run(tried());
    RwLock Read, |at| at.client.rw_lock("a") => read() try_read() run_read(body()) try_run_read(tried());
    RwLock Write, |at| at.client.rw_lock("a") =>
        write() try_write() run_write(body()) try_run_write(tried());
    Semaphore Semaphore, |at| at.client.semaphore("a", PERMITS) =>
        acquire() acquire_many(PERMITS) try_acquire() try_acquire_many(PERMITS) run(body())
        try_run(tried());
    MultiLock Multi, |at| at.client.multi_lock(["a", "b"]) =>
        lock() try_lock() run(body()) try_run(tried());
    // Of two clients, one of which is a quorum: each part in turn.
    MultiLock Quorum, |at| MultiLock::of([at.quorum.mutex("a").into(), at.client.mutex("b").into()]) =>
        lock();
    AnyLock Fair, |at| at.client.any_lock(LockKind::Fair, ["a"]) => lock();
    AnyLock Multi, |at| at.client.any_lock(LockKind::Mutex, ["a", "b"]) => try_lock();
    AnyLock Write, |at| at.client.any_lock(LockKind::Write, ["a"]) => run(body()) try_run(tried());
    AnyLock Several, |at| at.client.any_lock(LockKind::Write, ["a", "b"]) => lock();
};

/// The attribute, the layers, scopes and latches.
const CALLS: &[Row] = acquires! {
    "distributed_lock" Mutex, |at| annotated(at.client.clone());
    "LockClient::scope" Mutex, |at| at.client.scope(at.client.mutex("a").lock());
    "scope::inherit" Mutex, |at| scope::inherit(at.client.mutex("a").lock());
    "LockFuture" Mutex, |at| {
        let layer = LockLayer::new(at.client.clone(), |(): &()| LockKey::new("a").map(Some));
        layer.layer(service_fn(no_error)).call(()).map(|done| {
            done.unwrap();
            Ok(())
        })
    };
    "HttpLockFuture" Mutex, |at| handled(at.client.clone(), |_| body());
    "HeldLock::release" Mutex, |at| {
        handled(at.client.clone(), |lock| async move { lock.release().await.unwrap() })
    };
    // The body ends the wait.
    "HeldLock::lost" Mutex, |at| {
        handled(at.client.clone(), |lock| async move {
            assert!(timeout(ms(5), lock.lost()).await.is_err());
        })
    };
    "CountDownLatch::reached" Latch, |at| {
        let latch = at.client.latch("a");
        async move { latch.reached().await }
    };
};

#[allow(clippy::async_yields_async, reason = "what a future is about exists before it is made")]
const PREPARED: &[Row] = prepared! {
    "CountDownLatch::try_set_count" [Latch], |at, store, kind| async move {
        assert!(at.client.latch("a").try_set_count(2).await.unwrap());
    };
    "CountDownLatch::count_down" [Latch], |at, store, kind| {
        let latch = set(&at).await;
        async move { assert_eq!(latch.count_down().await.unwrap(), 1) }
    };
    "CountDownLatch::count" [Latch], |at, store, kind| {
        let latch = set(&at).await;
        async move { assert_eq!(latch.count().await.unwrap(), 2) }
    };
    "CountDownLatch::remove" [Latch], |at, store, kind| {
        let latch = set(&at).await;
        async move { assert!(latch.remove().await.unwrap()) }
    };
    "LockGuard::release" [Mutex Read Fair Write Multi Several Quorum], |at, store, kind| {
        at.take(kind).await.unwrap().release().map(Result::unwrap)
    };
    "LockGuard::release" [Semaphore], |at, store, kind| {
        let permit = at.client.semaphore("a", PERMITS).acquire().await.unwrap();
        permit.release().map(Result::unwrap)
    };
    "LockGuard::extend" [Mutex Fair Read Write Multi Several Quorum], |at, store, kind| {
        let guard = at.take(kind).await.unwrap();
        async move { guard.extend(secs(60)).await.unwrap() }
    };
    "LockGuard::run" [Mutex], |at, store, kind| {
        let guard = held(&at).await;
        async move { guard.run(body()).await.unwrap() }
    };
    "LockGuard::run_owned" [Mutex], |at, store, kind| {
        held(&at).await.run_owned(body()).map(|(_, ran)| ran.unwrap())
    };
    // Two re-entries side by side, which take turns, and a read inside a write.
    "LockGuard::run" [Mutex], |at, store, kind| {
        let (guard, client) = (held(&at).await, at.client.clone());
        let reentry = |client: LockClient| async move {
            let inner = client.mutex("a").lock().await.unwrap();
            body().await;
            inner.release().await.unwrap();
        };
        let both = join(reentry(client.clone()), reentry(client)).map(drop);
        async move { guard.run(both).await.unwrap() }
    };
    "LockGuard::run" [Write], |at, store, kind| {
        let (guard, client) = (at.take(kind).await.unwrap(), at.client.clone());
        async move {
            let read = guard.run(async { client.rw_lock("a").read().await.unwrap() }).await;
            guard.release().await.unwrap();
            read.unwrap().release().await.unwrap();
        }
    };
    // The watchdog finds out.
    "LockGuard::lost" [Mutex], |at, store, kind| {
        let guard = held(&at).await;
        freed_soon(store);
        async move { drop(guard.lost().await) }
    };
    "LockWatch::lost" [Mutex], |at, store, kind| {
        let guard = held(&at).await;
        freed_soon(store);
        async move { drop(guard.watch().lost().await) }
    };
    "Admin::inspect" [Mutex], |at, store, kind| async move {
        drop(at.client.admin().inspect("a").await.unwrap());
    };
    "Admin::force_release" [Mutex], |at, store, kind| {
        let guard = held(&at).await;
        async move {
            assert!(at.client.admin().force_release("a").await.unwrap());
            drop(guard);
        }
    };
    "LockClient::ready" [Mutex], |at, store, kind| async move {
        at.client.ready().await.unwrap();
    };
    "Admin::servers" [Mutex], |at, store, kind| async move {
        drop(at.client.admin().servers().await.unwrap());
    };
    "Admin::missing_rights" [Mutex], |at, store, kind| async move {
        drop(at.client.admin().missing_rights().await.unwrap());
    };
    "LockClient::shutdown" [Client], |at, store, kind| {
        drop(held(&at).await);
        async move { assert!(at.client.shutdown(secs(1)).await.is_clean()) }
    };
    "LockClient::grace_over" [Client], |at, store, kind| {
        let (guard, client) = (held(&at).await, at.client.clone());
        tokio::spawn(async move {
            sleep(ms(5)).await;
            client.shutdown(ms(5)).await
        });
        async move {
            at.client.grace_over().await;
            drop(guard);
        }
    };
    "LockClient::from_config" [Client], |at, store, kind| {
        let config = LockConfig::from_toml("lock.url = 'memory:'").unwrap();
        async move { drop((at, LockClient::from_config(config).await.unwrap())) }
    };
    "LockClientBuilder::connect_config" [Client], |at, store, kind| {
        let config = LockConfig::from_toml("lock.url = 'memory:'").unwrap();
        async move { drop((at, LockClient::builder().connect_config(config).await.unwrap())) }
    };
};
