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

/// Rows of calls: a request takes effect whether or not its future is polled any more, as one that was sent does.
macro_rules! far {
    ($($call:ident($(&$kept:ident: $owned:ty,)? $($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $call(&self, $($kept: &$owned,)? $($arg: $type),*) -> StoreFuture<'_, $answer> {
            let inner = self.0.clone();
            $(let $kept = <$owned>::clone($kept);)?
            let sent = lock_tests::spawn(async move {
                sleep(WAY).await;
                let answer = inner.$call($(&$kept,)? $($arg),*).await;
                sleep(WAY).await;
                answer
            });
            StoreFuture::new(async move { sent.await.expect("the store does not panic") })
        }
    )*};
}

impl Store for Far {
    far! {
        acquire(request: AcquireRequest) -> AcquireReply;
        renew(requests: Vec<RenewRequest>, timeout: Duration) -> Vec<Ownership>;
        release(request: ReleaseRequest) -> ReleaseReply;
        subscribe(&target: Arc<Target>, timeout: Duration) -> Subscription;
        latch(&target: Arc<Target>, request: LatchRequest, timeout: Duration) -> u64;
        raise_token(&target: Arc<Target>, token: FencingToken, timeout: Duration) -> ();
        inspect(&key: LockKey, timeout: Duration) -> Inspection;
        force_release(&key: LockKey, timeout: Duration) -> bool;
        ping(timeout: Duration) -> ();
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }
}
