//! Where an annotated function finds its client. A program of its own: it installs one for the process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use lock_runtime::clock::Clock;
use lock_runtime::store::{
    AcquireReply, AcquireRequest, Ownership, ReleaseReply, ReleaseRequest, RenewRequest, Store,
    StoreFuture, Subscription, Target,
};
use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

#[distributed_lock(key = "whoever", guard = hold)]
async fn anybody() -> Result<String, LockError> {
    fn name(hold: &LockGuard) -> String {
        hold.key().to_string()
    }
    Ok(name(hold))
}

/// S-32: the enclosing scope's client, else the installed one, else an error that says what to do.
#[tokio::test(start_paused = true)]
async fn the_client_is_found() {
    let error = anybody().await.unwrap_err();
    assert!(matches!(error, LockError::NoClient { .. }), "{error:?}");
    assert!(error.to_string().contains("anybody") && error.to_string().contains("install()"));
    let in_namespace = |name| LockClient::builder().namespace(name).in_memory().unwrap();
    in_namespace("installed").install();
    assert_eq!(anybody().await.unwrap(), "installed:whoever");
    let scoped = in_namespace("scoped");
    assert_eq!(scoped.scope(anybody()).await.unwrap(), "scoped:whoever");
    assert_eq!(anybody().await.unwrap(), "installed:whoever");
    in_namespace("another").install();
    assert_eq!(anybody().await.unwrap(), "another:whoever");
    a_replaced_client_may_ask_for_its_successor();
}

/// A store that asks for the installed client when it is dropped.
#[derive(Debug)]
struct Asks(Sender<bool>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.0.send(LockClient::current().is_some()).unwrap();
    }
}

impl Store for Asks {
    fn acquire(&self, _: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        StoreFuture::new(std::future::pending())
    }

    fn renew(&self, _: Vec<RenewRequest>, _: Duration) -> StoreFuture<'_, Vec<Ownership>> {
        StoreFuture::new(std::future::pending())
    }

    fn release(&self, _: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        StoreFuture::new(std::future::pending())
    }

    fn subscribe(&self, _: &Arc<Target>, _: Duration) -> StoreFuture<'_, Subscription> {
        StoreFuture::new(std::future::pending())
    }

    fn clock(&self) -> Clock {
        Clock::boot_time()
    }
}

/// The client that `install` replaces is dropped where nothing is locked.
fn a_replaced_client_may_ask_for_its_successor() {
    let (asked, answer) = channel();
    std::thread::spawn(|| {
        LockClient::builder().store(Asks(asked)).unwrap().install();
        LockClient::in_memory().install();
    });
    assert_eq!(answer.recv_timeout(Duration::from_secs(10)), Ok(true), "`install` does not end");
}
