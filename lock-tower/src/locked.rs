//! One call under one lock: run, release. The generic layer and the HTTP layer both use this.
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

use lock_runtime::__layer_v1::{self as runtime, LayerLabel, Protected};
use lock_runtime::acquire::Acquire;
use lock_runtime::options::{OnLost, OnReleaseLost};
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::held::{Hold, Panic, Releasing, Stopped, Terms};

/// How a layer locks one call.
#[derive(Debug, Clone)]
pub(crate) struct LockSpec {
    pub(crate) client: LockClient,
    pub(crate) kind: LockKind,
    pub(crate) options: Arc<LockOptions>,
    /// In place of that of the options.
    pub(crate) release_timeout: Option<Duration>,
    /// False if the call runs anyway, and the log only records what would have blocked it.
    pub(crate) enforced: bool,
}

impl LockSpec {
    /// Returns the future that acquires the lock. `label` is the layer's, for logs and metrics.
    pub(crate) fn acquire(&self, label: &LayerLabel, key: LockKey) -> Acquire {
        let options = Arc::clone(&self.options);
        runtime::acquire(&self.client, label, self.kind, key, options, self.enforced)
    }

    pub(crate) fn terms(&self) -> Terms {
        let options = runtime::in_effect(&self.options);
        Terms {
            release_timeout: self.release_timeout.unwrap_or(options.release_timeout),
            reports_loss: self.enforced && options.on_lost == OnLost::Finish,
            reports_late_loss: self.enforced && options.on_release_lost == OnReleaseLost::Error,
        }
    }
}

/// Takes `inner`, which must be ready, and leaves a clone in its place, which may not be ready.
pub(crate) fn take_ready<S: Clone>(inner: &mut S) -> S {
    let clone = inner.clone();
    std::mem::replace(inner, clone)
}

pin_project! {
    /// A call of the inner service that starts on the first poll (rule 1).
    #[project = CallProjection]
    enum Call<S, Req>
    where
        S: Service<Req>,
    {
        Ready { ready: Option<(S, Req)> },
        Started { #[pin] future: S::Future },
    }
}

impl<S: Service<Req>, Req> Future for Call<S, Req> {
    type Output = Result<S::Response, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let CallProjection::Ready { ready } = self.as_mut().project() {
            let Some((mut inner, request)) = ready.take() else { return Poll::Pending };
            let future = inner.call(request);
            self.set(Self::Started { future });
        }
        match self.project() {
            CallProjection::Started { future } => future.poll(cx),
            CallProjection::Ready { .. } => Poll::Pending,
        }
    }
}

pin_project! {
    /// A call that runs under its lock, which is released afterwards.
    pub(crate) struct LockedCall<S, Req, T>
    where
        S: Service<Req>,
    {
        // Before the hold: fields are dropped in this order, and the call goes first (S-13).
        #[pin]
        call: Protected<Call<S, Req>>,
        // `None` once the call has ended.
        hold: Option<Hold>,
        #[pin]
        releasing: Option<Releasing>,
        ended: Option<Result<T, Panic>>,
    }
}

impl<S: Service<Req>, Req, T> LockedCall<S, Req, T> {
    /// A call of a service that is ready.
    pub(crate) fn new(ready: (S, Req), hold: Hold) -> Self {
        let call = Protected::new(Call::Ready { ready: Some(ready) });
        Self { call, hold: Some(hold), releasing: None, ended: None }
    }

    /// Polls the call, runs `then` on its result while the lock is held, and then releases the lock, unless `then`
    /// returns true: the value is returned with the hold then. Pending forever after that.
    ///
    /// # Errors
    ///
    /// A loss that replaces the value.
    pub(crate) fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        then: impl FnOnce(Result<S::Response, S::Error>, &mut Context<'_>) -> (T, bool),
    ) -> Poll<Result<(T, Option<Hold>), LockError>> {
        let mut this = self.project();
        if let Some(hold) = this.hold {
            let poll = |call: Pin<&mut Call<S, Req>>, cx: &mut Context<'_>| {
                call.poll(cx).map(|result| then(result, cx))
            };
            let ended = match ready!(hold.poll(this.call.as_mut(), cx, poll)) {
                Ok(value) => hold.check().map(|()| Ok(value)),
                Err(Stopped::Panicked(panic)) => Ok(Err(panic)),
                Err(Stopped::Lost(lost)) => Err(lost),
            };
            match &ended {
                Ok(Err(_)) => this.call.cancel(),
                _ => this.call.clear(),
            }
            let hold = this.hold.take();
            let ended = match (ended?, hold) {
                (Ok((value, true)), Some(hold)) if !hold.is_released() => {
                    return Poll::Ready(Ok((value, Some(hold))));
                }
                (ended, hold) => {
                    this.releasing.set(hold.map(Hold::release));
                    ended.map(|(value, _)| value)
                }
            };
            *this.ended = Some(ended);
        }
        let Some(releasing) = this.releasing.as_pin_mut() else { return Poll::Pending };
        let released = ready!(releasing.poll(cx));
        match this.ended.take() {
            Some(Ok(value)) => Poll::Ready(released.map(|()| (value, None))),
            Some(Err(panic)) => resume_unwind(panic),
            None => Poll::Pending,
        }
    }
}
