//! A waker may run any code of its executor when it is called or dropped, so no mutex of the library is locked then.
//!
//! Each case runs on a thread of its own: a deadlock would stop the whole test program.

use std::sync::mpsc::channel;
use std::task::{Wake, Waker};

use crate::prelude::*;

type Callback = Box<dyn FnOnce() + Send>;

/// Runs a callback when it is woken, or dropped.
struct Calls(Mutex<Option<Callback>>, When);

#[derive(PartialEq)]
enum When {
    Woken,
    Dropped,
}

impl Calls {
    fn waker(when: When, callback: impl FnOnce() + Send + 'static) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some(Box::new(callback))), when)))
    }

    fn call(&self, now: When) {
        let callback = if self.1 == now { self.0.lock().unwrap().take() } else { None };
        callback.into_iter().for_each(|callback| callback());
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.call(When::Woken);
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.call(When::Dropped);
    }
}

/// Polls once, with this waker.
fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Runs the case on a thread with a runtime, and fails if it does not end.
fn ends<F: Future<Output = ()>>(case: impl FnOnce() -> F + Send + 'static) {
    let (ended, end) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(case());
        ended.send(()).unwrap();
    });
    end.recv_timeout(SOON).expect("the case does not end");
}

/// The task that waits in `shutdown` is woken when the last hold has ended.
#[test]
fn a_waker_of_a_shutdown_may_ask_for_the_holds() {
    ends(async || {
        let client = LockClient::in_memory();
        let guard = client.mutex("a").lock().await.unwrap();
        let (woken, asked) = channel();
        let asks = client.clone();
        let waker =
            Calls::waker(When::Woken, move || woken.send(asks.admin().held().len()).unwrap());
        let mut shutdown = Box::pin(client.shutdown(SOON));
        assert!(poll_with(&mut shutdown, &waker).is_pending());
        drop(guard);
        assert_eq!(asked.recv_timeout(SOON), Ok(0));
        assert!(shutdown.await.is_clean());
    });
}

/// A release wakes the listeners of the name, in memory and by a message of the server, and so does a new connection.
#[test]
fn a_waker_of_a_subscription_may_end_another() {
    for (on_redis, reconnects) in [(false, false), (true, false), (true, true)] {
        ends(async move || {
            let server = RedisServer::start().await;
            let store: Arc<dyn Store> = match on_redis {
                true => Arc::new(RedisStore::connect(&server.url()).await.unwrap()),
                false => Arc::new(MemoryStore::new()),
            };
            let target = Target::mutex(LockKey::new("a").unwrap());
            let owner = OwnerId::new(&client_id(), 1, 1);
            let acquire = AcquireRequest::new(target.clone(), owner.clone(), SOON, SOON);
            assert!(matches!(store.acquire(acquire).await, Ok(AcquireReply::Granted(_))));
            let mut listens = store.subscribe(&target, SOON).await.unwrap();
            let another = store.subscribe(&target, SOON).await.unwrap();
            let (woken, is_woken) = channel();
            let waker = Calls::waker(When::Woken, move || {
                drop(another);
                woken.send(()).unwrap();
            });
            let mut notified = Box::pin(listens.notified());
            assert!(poll_with(&mut notified, &waker).is_pending());
            if reconnects {
                server.client_kill(ClientType::PubSub).await;
            } else {
                store.release(ReleaseRequest::new(target, owner, SOON)).await.unwrap();
            }
            soon!("it is woken", is_woken.try_recv().is_ok());
        });
    }
}

/// S-6: a re-entry that waits keeps the waker of its last poll until it is polled with another, or dropped.
#[test]
fn a_waker_of_a_re_entry_may_drop_another() {
    ends(async || {
        let client = LockClient::in_memory();
        let mutex = client.mutex("a");
        let guard = mutex.lock().await.unwrap();
        let body = async {
            let inside = mutex.lock().await.unwrap();
            for drops_the_waiter in [true, false] {
                let mut another = mutex.lock();
                assert!(poll_with(&mut another, Waker::noop()).is_pending());
                let waker = Calls::waker(When::Dropped, move || drop(another));
                let mut waits = mutex.lock();
                assert!(poll_with(&mut waits, &waker).is_pending());
                drop(waker);
                if !drops_the_waiter {
                    assert!(poll_with(&mut waits, Waker::noop()).is_pending());
                }
            }
            inside.release().await.unwrap();
        };
        guard.run(body).await.unwrap();
    });
}

/// S-10: the client's task runs wakers, and renews all holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waker_that_panics_stops_no_renewal() {
    let store = MemoryStore::new();
    let client = LockClient::builder().memory(store.peer()).unwrap();
    let other = LockClient::builder().memory(store).unwrap();
    let lease = LockOptions::new().lease(Lease::Watchdog(secs(1)));
    let kept = client.mutex("kept").with(lease).lock().await.unwrap();
    let held = other.mutex("held").lock().await.unwrap();
    let mut waiting = Box::pin(client.mutex("held").lock());
    let (panics, panicked) = channel();
    let waker = Calls::waker(When::Woken, move || {
        panics.send(()).unwrap();
        panic!("a waker panics");
    });
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    held.release().await.unwrap();
    soon!("it was woken", panicked.try_recv().is_ok());
    sleep(secs(3)).await;
    assert!(!kept.is_lost());
    waiting.await.unwrap().release().await.unwrap();
    kept.release().await.unwrap();
}
