//! One call under one lock: acquire, run, release. The generic layer and the HTTP layer both use this.
//!
//! 1. The inner service is called while the guard polls it: `call` may do more than return a future, and a
//!    lock that it acquires there is re-entry as well.
//! 2. The call is dropped before the guard, when the hold is lost or when the whole future is dropped, so no
//!    part of the call runs unprotected. A dropped guard is released in the background.
//! 3. The release ends before the result is returned, also if the result is a panic, so that a caller that acts
//!    on the result finds the lock free. If the store does not answer, the result waits for
//!    `release_timeout` at most, and the release goes on in the background.
// S-6, S-13, S-20.

use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_runtime::acquire::Acquire;
use lock_runtime::guard::{LockWatch, Protected, Release};
use lock_runtime::options::{OnLost, OnReleaseLost};
#[cfg(feature = "http")]
use lock_runtime::policy::Policy;
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower_service::Service;

use crate::held::{CurrentHold, HoldHandle, Panic, Stopped};

/// How long a result waits for the store to confirm the release, by default.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_millis(250);

/// How a layer locks one call.
#[derive(Debug, Clone)]
pub(crate) struct LockSpec {
    pub(crate) client: LockClient,
    pub(crate) kind: LockKind,
    pub(crate) options: Arc<LockOptions>,
    pub(crate) release_timeout: Duration,
    /// False if the call runs anyway, and the log only records what would have blocked it.
    pub(crate) enforced: bool,
    /// Where the layer was made.
    pub(crate) site: &'static Location<'static>,
    /// The policy that metrics and spans name.
    #[cfg(feature = "http")]
    pub(crate) policy: Option<Policy>,
}

impl LockSpec {
    /// Returns the future that acquires the lock.
    pub(crate) fn acquire(&self, key: LockKey) -> Acquire {
        let lock = self.client.any_lock(self.kind, [key]);
        #[cfg(feature = "http")]
        let lock = match &self.policy {
            Some(policy) => lock.follows(policy),
            None => lock,
        };
        let lock = lock.asked_at(self.site).with(Arc::clone(&self.options));
        if self.enforced { lock.lock() } else { lock.shadow_lock() }
    }

    pub(crate) fn release(&self) -> ReleaseSpec {
        ReleaseSpec {
            timeout: self.release_timeout,
            reports_loss: self.enforced && self.options.on_lost() == OnLost::Finish,
            reports_late_loss: self.enforced
                && self.options.on_release_lost() == OnReleaseLost::Error,
        }
    }
}

/// How a layer releases a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReleaseSpec {
    timeout: Duration,
    /// True if a loss replaces the result of a call that ran on after it.
    pub(crate) reports_loss: bool,
    /// True if a loss that only the release finds replaces the result.
    reports_late_loss: bool,
}

pin_project! {
    /// A call that runs under its lock.
    pub(crate) struct Running<S, Req>
    where
        S: Service<Req>,
    {
        // Before the handle: fields are dropped in this order, and the call goes first (S-13).
        #[pin]
        call: Protected<Call<S, Req>>,
        handle: Option<HoldHandle>,
        release: ReleaseSpec,
        acquired_at: Instant,
    }
}

/// The hold of a call that is over.
pub(crate) struct UnreleasedHold {
    pub(crate) handle: HoldHandle,
    pub(crate) spec: ReleaseSpec,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "for `Retry-After`"))]
    pub(crate) acquired_at: Instant,
}

impl UnreleasedHold {
    pub(crate) fn release<T>(self, value: Result<T, Panic>) -> Releasing<T> {
        Releasing::new(self.handle, self.spec, value)
    }
}

/// The result of a call that has ended, or its panic, with the hold that is still to be released. A loss replaces both.
pub(crate) type Polled<T> = Result<(Result<T, Panic>, UnreleasedHold), LockError>;

impl<S: Service<Req>, Req> Running<S, Req> {
    pub(crate) fn new(handle: HoldHandle, release: ReleaseSpec, call: Call<S, Req>) -> Self {
        let acquired_at = Instant::now();
        Self { call: Protected::new(call), handle: Some(handle), release, acquired_at }
    }

    /// Polls the call, and runs `then` on its result while the lock is held. An error is a loss that replaces
    /// the result.
    pub(crate) fn poll_then<T>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        then: impl FnOnce(Result<S::Response, S::Error>, &mut Context<'_>) -> T,
    ) -> Poll<Polled<T>> {
        let mut this = self.project();
        // Pending forever if polled after completion.
        let Some(handle) = this.handle.as_mut() else { return Poll::Pending };
        let polled = ready!(handle.poll(this.call.as_mut(), cx, |call, cx| {
            call.poll(cx).map(|result| then(result, cx))
        }));
        match polled {
            Err(Stopped::Panicked(_)) => this.call.cancel(),
            _ => this.call.clear(),
        }
        let Some(handle) = this.handle.take() else { return Poll::Pending };
        let value = match polled {
            Ok(value) => handle.check().map(|()| Ok(value)),
            Err(Stopped::Lost(lost)) => Err(lost),
            Err(Stopped::Panicked(panic)) => Ok(Err(panic)),
        };
        let hold = UnreleasedHold { handle, spec: *this.release, acquired_at: *this.acquired_at };
        Poll::Ready(value.map(|value| (value, hold)))
    }
}

pin_project! {
    /// Releases the lock of a call, then returns the call's value or resumes its panic.
    ///
    /// The output is an error if a loss replaces the value.
    pub(crate) struct Releasing<T> {
        release: Option<(Release, CurrentHold)>,
        release_timeout: Duration,
        // Until the result does not wait for the release any more, once that is under way.
        #[pin]
        timeout: Option<Sleep>,
        reports_late_loss: bool,
        value: Option<Result<T, Panic>>,
    }
}

impl<T> Releasing<T> {
    pub(crate) fn new(handle: HoldHandle, spec: ReleaseSpec, value: Result<T, Panic>) -> Self {
        Self {
            release: handle.release(),
            release_timeout: spec.timeout,
            timeout: None,
            reports_late_loss: spec.reports_late_loss,
            value: Some(value),
        }
    }
}

impl<T> Future for Releasing<T> {
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let outcome = match this.release {
            None => Ok(()),
            Some((release, hold)) => match Pin::new(release).poll(cx) {
                Poll::Ready(released) => {
                    hold.finish(released.clone());
                    loss_to_report(&hold.watch, released, *this.reports_late_loss)
                }
                Poll::Pending => {
                    if this.timeout.is_none() {
                        this.timeout.set(Some(sleep(*this.release_timeout)));
                    }
                    if let Some(timeout) = this.timeout.as_pin_mut() {
                        ready!(timeout.poll(cx));
                    }
                    hold.watch.log_debug("release not confirmed in time");
                    Ok(())
                }
            },
        };
        // Dropped now and not with this future, so that the releaser takes over an unconfirmed release.
        *this.release = None;
        match this.value.take() {
            Some(Ok(value)) => Poll::Ready(outcome.map(|()| value)),
            Some(Err(panic)) => resume_unwind(panic),
            // Pending forever if polled after completion.
            None => Poll::Pending,
        }
    }
}

/// A call that ended in time keeps its result even if its release fails, unless losses are reported.
// S-13.
fn loss_to_report(
    watch: &LockWatch,
    released: Result<(), LockError>,
    reports_loss: bool,
) -> Result<(), LockError> {
    match released {
        Err(error @ LockError::Lost { .. }) if reports_loss => Err(error),
        Err(error) => {
            watch.log_warn(Some(&error), "the call ended, but its release failed");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

pin_project! {
    /// A call of the inner service that starts on the first poll (rule 1).
    #[project = CallProjection]
    pub(crate) enum Call<S, Req>
    where
        S: Service<Req>,
    {
        Ready { inner: S, request: Option<Req> },
        Started { #[pin] future: S::Future },
    }
}

impl<S: Service<Req>, Req> Call<S, Req> {
    /// A call of `inner`, which must be ready. Leaves a clone in its place: the clone may not be ready.
    pub(crate) fn new(inner: &mut S, request: Req) -> Self
    where
        S: Clone,
    {
        let clone = inner.clone();
        Self::Ready { inner: std::mem::replace(inner, clone), request: Some(request) }
    }

    /// Returns the request, until the call starts.
    #[cfg(feature = "http")]
    pub(crate) fn request_mut(&mut self) -> Option<&mut Req> {
        match self {
            Self::Ready { request, .. } => request.as_mut(),
            Self::Started { .. } => None,
        }
    }

    /// Replaces the request, unless the call has started.
    #[cfg(feature = "http")]
    pub(crate) fn map_request(&mut self, map: impl FnOnce(Req) -> Req) {
        if let Self::Ready { request, .. } = self {
            *request = request.take().map(map);
        }
    }
}

impl<S: Service<Req>, Req> Future for Call<S, Req> {
    type Output = Result<S::Response, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let future = match self.as_mut().project() {
                CallProjection::Started { future } => return future.poll(cx),
                CallProjection::Ready { inner, request } => {
                    let Some(request) = request.take() else { return Poll::Pending };
                    inner.call(request)
                }
            };
            self.set(Self::Started { future });
        }
    }
}
