//! The methods of a store that does nothing but hand them on to the one `inner` it has.

/// Writes these methods of `Store`.
macro_rules! handed_on {
    (@clock) => {
        fn clock(&self) -> lock_runtime::clock::Clock {
            self.inner.clock()
        }
    };
    (@acquire) => { handed_on!(@one acquire(request: AcquireRequest) -> AcquireReply); };
    (@renew) => {
        handed_on!(@one renew(requests: Vec<RenewRequest>, timeout: Duration) -> Vec<Ownership>);
    };
    (@release) => { handed_on!(@one release(request: ReleaseRequest) -> ReleaseReply); };
    (@subscribe) => {
        handed_on!(@one subscribe(target: &Arc<Target>, timeout: Duration) -> Subscription);
    };
    (@one $method:ident($($arg:ident: $type:ty),*) -> $answer:ty) => {
        fn $method(&self, $($arg: $type),*) -> StoreFuture<'_, $answer> {
            self.inner.$method($($arg),*)
        }
    };
    ($($method:ident)*) => { $(handed_on!(@$method);)* };
}

pub(crate) use handed_on;
