//! A store in memory that is a few milliseconds away, so that each request is an await point.

use lock_runtime::admin::Inspection;

use crate::prelude::*;

/// How long a request takes to arrive, and its answer to come back.
const WAY: Duration = ms(5);

#[derive(Debug)]
pub(crate) struct Far(MemoryStore);

impl Far {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self(inner)
    }
}

/// A request takes effect whether or not its future is polled any more, as one that was sent does.
macro_rules! far {
    ($self:ident . $call:ident ( $($arg:expr),* )) => {{
        let inner = $self.0.clone();
        let sent = lock_tests::spawn(async move {
            sleep(WAY).await;
            let answer = inner.$call($($arg),*).await;
            sleep(WAY).await;
            answer
        });
        StoreFuture::new(async move { sent.await.expect("the store does not panic") })
    }};
}

impl Store for Far {
    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        far!(self.acquire(request))
    }

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        far!(self.renew(requests, timeout))
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        far!(self.release(request))
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        far!(self.subscribe(&target, timeout))
    }

    fn latch(
        &self,
        target: &Arc<Target>,
        request: LatchRequest,
        timeout: Duration,
    ) -> StoreFuture<'_, u64> {
        let target = Arc::clone(target);
        far!(self.latch(&target, request, timeout))
    }

    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let target = Arc::clone(target);
        far!(self.raise_token(&target, token, timeout))
    }

    fn inspect(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, Inspection> {
        let key = key.clone();
        far!(self.inspect(&key, timeout))
    }

    fn force_release(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, bool> {
        let key = key.clone();
        far!(self.force_release(&key, timeout))
    }

    fn ping(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        far!(self.ping(timeout))
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }
}
