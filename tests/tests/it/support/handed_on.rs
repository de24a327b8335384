//! The methods of a store that does nothing but hand them on to the one `inner` it has.

/// Writes these methods of `Store`.
macro_rules! handed_on {
    (@acquire) => {
        fn acquire(
            &self,
            request: lock_runtime::store::AcquireRequest,
        ) -> lock_runtime::store::StoreFuture<'_, lock_runtime::store::AcquireReply> {
            self.inner.acquire(request)
        }
    };
    (@renew) => {
        fn renew(
            &self,
            requests: Vec<lock_runtime::store::RenewRequest>,
            timeout: std::time::Duration,
        ) -> lock_runtime::store::StoreFuture<'_, Vec<lock_runtime::store::Ownership>> {
            self.inner.renew(requests, timeout)
        }
    };
    (@release) => {
        fn release(
            &self,
            request: lock_runtime::store::ReleaseRequest,
        ) -> lock_runtime::store::StoreFuture<'_, lock_runtime::store::ReleaseReply> {
            self.inner.release(request)
        }
    };
    (@subscribe) => {
        fn subscribe(
            &self,
            target: &std::sync::Arc<lock_runtime::store::Target>,
            timeout: std::time::Duration,
        ) -> lock_runtime::store::StoreFuture<'_, lock_runtime::store::Subscription> {
            self.inner.subscribe(target, timeout)
        }
    };
    (@clock) => {
        fn clock(&self) -> lock_runtime::clock::Clock {
            self.inner.clock()
        }
    };
    ($($method:ident)*) => { $($crate::support::handed_on::handed_on!(@$method);)* };
}

pub(crate) use handed_on;
