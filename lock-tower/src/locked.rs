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

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_runtime::__layer_v1::LayerLabel;
use lock_runtime::__layer_v1::Protected;
use lock_runtime::acquire::Acquire;
use lock_runtime::guard::{LockWatch, Release};
use lock_runtime::options::{OnLost, OnReleaseLost};
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::held::{CurrentHold, HoldHandle, Panic, Stopped};

/// How a layer locks one call.
#[derive(Debug, Clone)]
pub(crate) struct LockSpec {
    pub(crate) client: LockClient,
    pub(crate) kind: LockKind,
    pub(crate) options: Arc<LockOptions>,
    pub(crate) release_timeout: Duration,
    /// False if the call runs anyway, and the log only records what would have blocked it.
    pub(crate) enforced: bool,
}

impl LockSpec {
    /// Returns the future that acquires the lock. `label` is the layer's, for logs and metrics.
    pub(crate) fn acquire(&self, label: &LayerLabel, key: LockKey) -> Acquire {
        let options = Arc::clone(&self.options);
        self.client.acquire_for_layer(label, self.kind, key, options, self.enforced)
    }

    pub(crate) fn release(&self) -> ReleaseSpec {
        ReleaseSpec {
            timeout: self.release_timeout,
            reports_loss: self.enforced && self.options.get_on_lost() == OnLost::Finish,
            reports_late_loss: self.enforced
                && self.options.get_on_release_lost() == OnReleaseLost::Error,
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
    /// A call and its lock. The call stays in one place while it waits for the lock, runs and is released, and so does its
    /// value: moving them from state to state would be most of a layer's time.
    pub(crate) struct LockedCall<S, Req, T>
    where
        S: Service<Req>,
    {
        // Before the hold: fields are dropped in this order, and the call goes first (S-13).
        #[pin]
        call: Protected<Call<S, Req, T>>,
        // `None` before the lock is acquired, and once its release begins.
        hold: Option<CallHold>,
    }
}

/// The hold of a call.
pub(crate) struct CallHold {
    pub(crate) handle: HoldHandle,
    pub(crate) spec: ReleaseSpec,
}

impl<S: Service<Req>, Req, T> LockedCall<S, Req, T> {
    /// A call that waits for its lock.
    pub(crate) fn new(call: Call<S, Req, T>) -> Self {
        Self { call: Protected::new(call), hold: None }
    }

    /// Has the call run under `hold`.
    pub(crate) fn set_hold(self: Pin<&mut Self>, hold: CallHold) {
        *self.project().hold = Some(hold);
    }

    /// Returns the call, until its value has been taken.
    #[cfg(feature = "http")]
    pub(crate) fn call(self: Pin<&mut Self>) -> Option<Pin<&mut Call<S, Req, T>>> {
        self.project().call.get_pin_mut()
    }

    /// Takes out the call and its hold, unless the call has started.
    #[cfg(feature = "http")]
    pub(crate) fn take(self: Pin<&mut Self>) -> Option<Self> {
        let this = self.project();
        let call = this.call.get_pin_mut()?.take()?;
        Some(Self { call: Protected::new(call), hold: this.hold.take() })
    }

    /// Drops the call, which has not started.
    #[cfg(feature = "http")]
    pub(crate) fn clear(self: Pin<&mut Self>) {
        self.project().call.clear();
    }

    /// Takes the value of a call that has ended.
    pub(crate) fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().call.get_pin_mut()?.take_value()
    }

    /// Takes the hold, unless it was released early.
    #[cfg(feature = "http")]
    pub(crate) fn take_hold(self: Pin<&mut Self>) -> Option<CallHold> {
        self.project().hold.take_if(|hold| !hold.handle.is_released())
    }

    /// Starts the release after the call, which has ended or panicked.
    pub(crate) fn release(self: Pin<&mut Self>, panic: Option<Panic>) -> Option<Releasing> {
        let CallHold { handle, spec } = self.project().hold.take()?;
        Some(Releasing::new(handle, spec, panic))
    }

    /// Polls the call, and runs `then` on its result while the lock is held. Returns its panic, if it panicked.
    ///
    /// # Errors
    ///
    /// A loss that replaces the value.
    pub(crate) fn poll_then(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        then: impl FnOnce(Result<S::Response, S::Error>, &mut Context<'_>) -> T,
    ) -> Poll<Result<Option<Panic>, LockError>> {
        let mut this = self.project();
        // Pending forever if polled after completion.
        let Some(hold) = this.hold.as_mut() else { return Poll::Pending };
        let poll = |call: Pin<&mut Call<S, Req, T>>, cx: &mut Context<'_>| call.poll_then(cx, then);
        let lost = match ready!(hold.handle.poll(this.call.as_mut(), cx, poll)) {
            Ok(()) => match hold.handle.check() {
                Ok(()) => {
                    this.call.keep_ended();
                    return Poll::Ready(Ok(None));
                }
                Err(lost) => lost,
            },
            Err(Stopped::Panicked(panic)) => {
                this.call.cancel();
                return Poll::Ready(Ok(Some(panic)));
            }
            Err(Stopped::Lost(lost)) => lost,
        };
        this.call.clear();
        *this.hold = None;
        Poll::Ready(Err(lost))
    }
}

pin_project! {
    /// Releases the lock of a call, then resumes the call's panic, if it panicked.
    ///
    /// The output is an error if a loss replaces the call's value.
    pub(crate) struct Releasing {
        release: Option<(Release, CurrentHold)>,
        release_timeout: Duration,
        // Until the result does not wait for the release any more, once that is under way.
        #[pin]
        timeout: Option<Sleep>,
        reports_late_loss: bool,
        panic: Option<Panic>,
    }
}

impl Releasing {
    pub(crate) fn new(handle: HoldHandle, spec: ReleaseSpec, panic: Option<Panic>) -> Self {
        Self {
            release: handle.release(),
            release_timeout: spec.timeout,
            timeout: None,
            reports_late_loss: spec.reports_late_loss,
            panic,
        }
    }
}

impl Future for Releasing {
    type Output = Result<(), LockError>;

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
        match this.panic.take() {
            None => Poll::Ready(outcome),
            Some(panic) => resume_unwind(panic),
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
    /// A call of the inner service that starts on the first poll (rule 1). Its value stays in its place until it is
    /// taken.
    #[project = CallProjection]
    pub(crate) enum Call<S, Req, T>
    where
        S: Service<Req>,
    {
        Ready { ready: Option<(S, Req)> },
        Started { #[pin] future: S::Future },
        Ended { value: Option<T> },
    }
}

impl<S: Service<Req>, Req, T> Call<S, Req, T> {
    /// A call of `inner`, which must be ready. Leaves a clone in its place: the clone may not be ready.
    pub(crate) fn new(inner: &mut S, request: Req) -> Self
    where
        S: Clone,
    {
        let clone = inner.clone();
        Self::Ready { ready: Some((std::mem::replace(inner, clone), request)) }
    }

    /// Takes out the call, unless it has started.
    #[cfg(feature = "http")]
    fn take(self: Pin<&mut Self>) -> Option<Self> {
        match self.project() {
            CallProjection::Ready { ready } => {
                ready.take().map(|ready| Self::Ready { ready: Some(ready) })
            }
            _ => None,
        }
    }

    /// Returns the request, until the call starts.
    #[cfg(feature = "http")]
    pub(crate) fn request_mut(self: Pin<&mut Self>) -> Option<&mut Req> {
        match self.project() {
            CallProjection::Ready { ready } => ready.as_mut().map(|(_, request)| request),
            _ => None,
        }
    }

    /// Replaces the request, unless the call has started.
    #[cfg(feature = "http")]
    pub(crate) fn map_request(self: Pin<&mut Self>, map: impl FnOnce(Req) -> Req) {
        if let CallProjection::Ready { ready } = self.project() {
            *ready = ready.take().map(|(inner, request)| (inner, map(request)));
        }
    }

    /// Polls the call until it has ended, and runs `then` on its result, which makes its value.
    pub(crate) fn poll_then(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        then: impl FnOnce(Result<S::Response, S::Error>, &mut Context<'_>) -> T,
    ) -> Poll<()> {
        if let CallProjection::Ready { ready } = self.as_mut().project() {
            let Some((mut inner, request)) = ready.take() else { return Poll::Pending };
            let future = inner.call(request);
            self.set(Self::Started { future });
        }
        let CallProjection::Started { future } = self.as_mut().project() else {
            return Poll::Pending;
        };
        let value = Some(then(ready!(future.poll(cx)), cx));
        self.set(Self::Ended { value });
        Poll::Ready(())
    }

    /// Takes the value of a call that has ended.
    pub(crate) fn take_value(self: Pin<&mut Self>) -> Option<T> {
        match self.project() {
            CallProjection::Ended { value } => value.take(),
            _ => None,
        }
    }
}
