//! One call under one lock: take → run → release. Both layers are façades over this.
//!
//! What makes it right:
//!
//! 1. The inner service is called *inside* the run of the guard: its `call` may do more than make a
//!    future, and a lock that it takes there is re-entry as well.
//! 2. The call is dropped before the guard, at the deadline or with the whole future: nothing of it
//!    runs unprotected. A dropped guard is given back in the background.
//! 3. The release is over before the result is out, be it a panic, so that whoever acts on the result finds the
//!    lock free. A store that does not answer holds the result up for no longer than
//!    `release_timeout`; the releaser then goes on alone.
// S-6, S-13, S-20.

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_runtime::acquire::Acquire;
use lock_runtime::guard::{LockWatch, Protected, Release};
use lock_runtime::options::{OnLost, OnReleaseLost};
#[cfg(feature = "http")]
use lock_runtime::policy::Policy;
use lock_runtime::{LockClient, LockError, LockGuard, LockKey, LockKind, LockOptions};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower_service::Service;

use crate::held::{HoldHandle, LetGo, Panic, Stopped};

/// How long a result waits for the store to confirm the release, unless told otherwise.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_millis(250);

/// On what terms a layer takes locks.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) client: LockClient,
    pub(crate) kind: LockKind,
    pub(crate) options: LockOptions,
    pub(crate) release_timeout: Duration,
    /// False if the call runs in any case, and only what would have held it up is to be told.
    pub(crate) enforced: bool,
    /// Where the layer was made.
    pub(crate) site: &'static Location<'static>,
    /// Under which metrics and spans have it.
    #[cfg(feature = "http")]
    pub(crate) policy: Option<Policy>,
}

impl Terms {
    /// Starts to take the lock.
    pub(crate) fn take(&self, key: LockKey) -> Taking {
        let lock = self.client.any_lock(self.kind, [key]);
        #[cfg(feature = "http")]
        let lock = match &self.policy {
            Some(policy) => lock.follows(policy),
            None => lock,
        };
        let lock = lock.asked_at(self.site).with(self.options);
        let acquire = if self.enforced { lock.lock() } else { lock.shadow_lock() };
        Taking { acquire, enforced: self.enforced }
    }

    /// How to let go.
    pub(crate) fn end(&self) -> End {
        let reports_loss = self.enforced && self.options.on_lost() == OnLost::Finish;
        let on_release_lost = match self.enforced {
            true => self.options.on_release_lost(),
            false => OnReleaseLost::Log,
        };
        End { timeout: self.release_timeout, reports_loss, on_release_lost }
    }

    /// For how long a body may be sent. What is not enforced cuts nothing off.
    #[cfg(feature = "http")]
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.options.max_hold().filter(|_| self.enforced)
    }
}

/// An acquisition under way.
pub(crate) struct Taking {
    acquire: Acquire,
    enforced: bool,
}

/// What became of an acquisition.
pub(crate) enum Taken {
    Held(LockGuard),
    /// It failed, and the call is to run all the same.
    NotEnforced(LockError),
    Failed(LockError),
}

impl Future for Taking {
    type Output = Taken;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Taken> {
        Poll::Ready(match ready!(Pin::new(&mut self.acquire).poll(cx)) {
            Ok(guard) => Taken::Held(guard),
            // The log has it already.
            Err(error) if !self.enforced => Taken::NotEnforced(error),
            Err(error) => Taken::Failed(error),
        })
    }
}

pin_project! {
    /// A call that runs under its lock.
    pub(crate) struct Running<S, Req>
    where
        S: Service<Req>,
    {
        // Before the grip: fields are dropped in this order, and the call goes first (S-13).
        #[pin]
        run: Protected<Call<S, Req>>,
        handle: Option<HoldHandle>,
        taken_at: Instant,
    }
}

/// A call that is over, whose lock is still held.
pub(crate) struct Ran<T> {
    pub(crate) value: Result<T, Panic>,
    pub(crate) handle: HoldHandle,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "for `Retry-After`"))]
    pub(crate) taken_at: Instant,
}

impl<S: Service<Req>, Req> Running<S, Req> {
    pub(crate) fn new(handle: HoldHandle, call: Call<S, Req>) -> Self {
        Self { run: Protected::new(call), handle: Some(handle), taken_at: Instant::now() }
    }

    /// Polls the call, and what `then` does with its result while the lock is held.
    pub(crate) fn poll_then<T>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        then: impl FnOnce(Result<S::Response, S::Error>, &mut Context<'_>) -> T,
    ) -> Poll<Result<Ran<T>, LockError>> {
        let mut this = self.project();
        // Polled after completion, which a future may answer as it likes short of a panic.
        let Some(handle) = this.handle.as_mut() else { return Poll::Pending };
        let polled = ready!(handle.poll(this.run.as_mut(), cx, |call, cx| {
            call.poll(cx).map(|result| then(result, cx))
        }));
        match polled {
            Err(Stopped::Panicked(_)) => this.run.cancel(),
            _ => this.run.clear(),
        }
        let Some(handle) = this.handle.take() else { return Poll::Pending };
        let value = match polled {
            Ok(value) => handle.check().map(|()| Ok(value)),
            Err(Stopped::Lost(lost)) => Err(lost),
            Err(Stopped::Panicked(panic)) => Ok(Err(panic)),
        };
        Poll::Ready(value.map(|value| Ran { value, handle, taken_at: *this.taken_at }))
    }
}

/// How to let go of a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) timeout: Duration,
    /// True if a loss that has not stopped the call takes the place of its result.
    pub(crate) reports_loss: bool,
    on_release_lost: OnReleaseLost,
}

pin_project! {
    /// Lets go of a lock; over when the store has confirmed it, or has had its time.
    pub(crate) struct Releasing {
        #[pin]
        under_way: Option<UnderWay>,
        end: End,
    }
}

pin_project! {
    struct UnderWay {
        release: Release,
        let_go: LetGo,
        #[pin]
        limit: Sleep,
    }
}

impl Releasing {
    pub(crate) fn new(handle: HoldHandle, end: End) -> Self {
        let under_way = handle.let_go().map(|(release, let_go)| UnderWay {
            release,
            let_go,
            limit: sleep(end.timeout),
        });
        Self { under_way, end }
    }
}

impl Future for Releasing {
    /// An error is to take the place of the result.
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(under_way) = this.under_way.as_mut().as_pin_mut() else {
            return Poll::Ready(Ok(()));
        };
        let step = under_way.project();
        let watch = step.let_go.watch();
        let outcome = match Pin::new(step.release).poll(cx) {
            Poll::Ready(released) => {
                step.let_go.end(released.clone());
                judge(watch, released, this.end.on_release_lost)
            }
            Poll::Pending => {
                ready!(step.limit.poll(cx));
                watch.log_debug("release not confirmed in time");
                Ok(())
            }
        };
        // Leaves an unconfirmed release to the releaser now, not with the future.
        this.under_way.set(None);
        Poll::Ready(outcome)
    }
}

/// A call that ended in time keeps its result, whatever its release finds, unless it is to
/// hear of a loss.
// S-13.
fn judge(
    watch: &LockWatch,
    released: Result<(), LockError>,
    on_lost: OnReleaseLost,
) -> Result<(), LockError> {
    match released {
        Err(error @ LockError::Lost { .. }) if on_lost == OnReleaseLost::Error => Err(error),
        Err(error) => {
            watch.log_warn(Some(&error), "the call ended, but its release failed");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

pin_project! {
    /// A call that happens when it is first polled (rule 1).
    #[project = CallProjection]
    pub(crate) enum Call<S, Req>
    where
        S: Service<Req>,
    {
        Ready { inner: S, request: Option<Req> },
        UnderWay { #[pin] future: S::Future },
    }
}

impl<S: Service<Req>, Req> Call<S, Req> {
    /// `inner` must be ready.
    pub(crate) fn new(inner: S, request: Req) -> Self {
        Self::Ready { inner, request: Some(request) }
    }

    /// The request, before it is sent.
    #[cfg(feature = "http")]
    pub(crate) fn request_mut(&mut self) -> Option<&mut Req> {
        match self {
            Self::Ready { request, .. } => request.as_mut(),
            Self::UnderWay { .. } => None,
        }
    }

    /// Another request in place of that one, before it is sent.
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
                CallProjection::UnderWay { future } => return future.poll(cx),
                CallProjection::Ready { inner, request } => {
                    let Some(request) = request.take() else { return Poll::Pending };
                    inner.call(request)
                }
            };
            self.set(Self::UnderWay { future });
        }
    }
}

impl<S: Service<Req>, Req> fmt::Debug for Running<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("handle", &self.handle).finish_non_exhaustive()
    }
}
