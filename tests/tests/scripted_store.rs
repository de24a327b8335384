//! A store that does something at a chosen moment, for interleavings that no timing would hit.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lock_runtime::store::{
    AcquireReply, AcquireRequest, CountRequest, Ownership, ReleaseReply, ReleaseRequest,
    RenewRequest, StoreFuture, Subscription, Target,
};
use lock_runtime::{Clock, LockClient, MemoryStore, Store};
use tokio::time::Instant;

type Step = BoxFuture<'static, ()>;

/// The in-memory store, with a step before the next subscription.
#[derive(Clone)]
struct Scripted {
    inner: MemoryStore,
    before_subscribing: Arc<Mutex<Option<Step>>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Store for Scripted {
    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        self.inner.acquire(request)
    }

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        self.inner.renew(requests, timeout)
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        self.inner.release(request)
    }

    fn show_counts(&self, requests: Vec<CountRequest>, timeout: Duration) -> StoreFuture<'_, ()> {
        self.inner.show_counts(requests, timeout)
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let (this, target) = (self.clone(), Arc::clone(target));
        Box::pin(async move {
            let step = this.before_subscribing.lock().unwrap().take();
            if let Some(step) = step {
                step.await;
            }
            this.inner.subscribe(&target, timeout).await
        })
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }
}

/// S-15: a release between the refusal and the subscription is found by the try that follows it,
/// and not only when the holder's lease or the poll cap is over.
#[tokio::test(start_paused = true)]
async fn a_release_before_the_subscription_is_found() {
    let store = MemoryStore::new();
    let holder = LockClient::builder().store(store.peer()).unwrap();
    let scripted = Scripted { inner: store, before_subscribing: Arc::default() };
    let client = LockClient::builder().store(scripted.clone()).unwrap();
    let guard = holder.mutex("gap").lock().await.unwrap();
    let release: Step = Box::pin(async move { guard.release().await.unwrap() });
    *scripted.before_subscribing.lock().unwrap() = Some(release);
    let start = Instant::now();
    let guard = client.mutex("gap").lock().await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(100), "slept for {:?}", start.elapsed());
    guard.release().await.unwrap();
}
