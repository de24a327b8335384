//! One call under one lock: acquire → run → release. Both layers are façades over this.
//!
//! What makes it right:
//!
//! 1. The inner service is called *inside* the run of the guard: its `call` may do more than make a
//!    future, and a lock that it takes there is re-entry as well (S-6).
//! 2. The call is dropped before the guard, at the deadline or with the whole future: nothing of it
//!    runs unprotected (S-13). A dropped guard is given back in the background (S-20).
//! 3. The release is over before the result is out, so that whoever acts on the result finds the
//!    lock free. A store that does not answer holds the result up for no longer than
//!    `release_timeout`; the releaser then goes on alone.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_runtime::{
    Acquire, LockClient, LockError, LockGuard, LockKey, LockOptions, Release, RunOwned,
};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tower_service::Service;

/// How long a result waits for the store to confirm the release, unless told otherwise.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_millis(250);

/// On what terms a layer takes locks.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) client: LockClient,
    pub(crate) options: LockOptions,
    pub(crate) release_timeout: Duration,
}

/// What became of a call.
pub(crate) enum Outcome<T> {
    /// It needed no lock.
    Passed(T),
    /// It ran under its lock, which was held for so long.
    Ran {
        value: T,
        #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "for `Retry-After`"))]
        held: Duration,
    },
    /// The lock was not taken, or was lost.
    Failed(LockError),
}

pin_project! {
    /// A call that waits for its lock, runs, or gives the lock back.
    pub(crate) struct Locked<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S, Req>,
        release_timeout: Duration,
        taken_at: Option<Instant>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, Req>
    where
        S: Service<Req>,
    {
        Passing { #[pin] future: S::Future },
        Failed { error: Option<LockError> },
        Acquiring { acquire: Acquire, call: Option<Call<S, Req>> },
        Running { #[pin] run: RunOwned<LockGuard, Call<S, Req>> },
        Releasing {
            release: Release,
            key: LockKey,
            #[pin] limit: Sleep,
            result: Option<Result<S::Response, S::Error>>,
        },
    }
}

impl<S: Service<Req>, Req> Locked<S, Req> {
    fn new(state: State<S, Req>, release_timeout: Duration) -> Self {
        Self { state, release_timeout, taken_at: None }
    }

    /// A call that needs no lock and is under way already.
    pub(crate) fn passing(future: S::Future) -> Self {
        Self::new(State::Passing { future }, RELEASE_TIMEOUT)
    }

    /// A call that failed before anything was sent.
    pub(crate) fn failed(error: LockError) -> Self {
        Self::new(State::Failed { error: Some(error) }, RELEASE_TIMEOUT)
    }

    /// Starts to take the lock. `inner` must be ready; it is called once the lock is held.
    pub(crate) fn acquiring(terms: &Terms, key: LockKey, inner: S, request: Req) -> Self {
        let acquire = terms.client.mutex(key).with(terms.options).lock();
        let call = Some(Call::Ready { inner, request: Some(request) });
        Self::new(State::Acquiring { acquire, call }, terms.release_timeout)
    }
}

impl<S: Service<Req>, Req> Future for Locked<S, Req> {
    type Output = Outcome<Result<S::Response, S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Passing { future } => {
                    return future.poll(cx).map(Outcome::Passed);
                }
                // Here and below: polled after completion, which a future may answer as it likes
                // short of a panic.
                StateProjection::Failed { error } => {
                    return error.take().map_or(Poll::Pending, |e| Poll::Ready(Outcome::Failed(e)));
                }
                StateProjection::Acquiring { acquire, call } => {
                    let acquired = ready!(Pin::new(acquire).poll(cx));
                    let Some(call) = call.take() else { return Poll::Pending };
                    match acquired {
                        Err(error) => State::Failed { error: Some(error) },
                        Ok(guard) => {
                            *this.taken_at = Some(Instant::now());
                            State::Running { run: guard.run_owned(call) }
                        }
                    }
                }
                StateProjection::Running { run } => match ready!(run.poll(cx)) {
                    // The guard knows that it is lost; dropping it cleans up.
                    (_guard, Err(lost)) => State::Failed { error: Some(lost) },
                    (guard, Ok(result)) => State::Releasing {
                        key: guard.key().clone(),
                        release: guard.release(),
                        limit: sleep(*this.release_timeout),
                        result: Some(result),
                    },
                },
                StateProjection::Releasing { release, key, limit, result } => {
                    match Pin::new(release).poll(cx) {
                        Poll::Ready(released) => note(key, released),
                        Poll::Pending => {
                            ready!(limit.poll(cx));
                            tracing::debug!(lock.key = ?key, "release not confirmed in time");
                        }
                    }
                    let Some(value) = result.take() else { return Poll::Pending };
                    let held = this.taken_at.map_or(Duration::ZERO, |at| at.elapsed());
                    // Leaves an unconfirmed release to the releaser now, not with the future.
                    this.state.set(State::Failed { error: None });
                    return Poll::Ready(Outcome::Ran { value, held });
                }
            };
            this.state.set(next);
        }
    }
}

/// S-13: a call that ended in time keeps its result, whatever its release finds.
fn note(key: &LockKey, released: Result<(), LockError>) {
    if let Err(error) = released {
        tracing::warn!(
            lock.key = ?key,
            error = &error as &dyn std::error::Error,
            "the call ended, but its release failed"
        );
    }
}

impl<S: Service<Req>, Req> fmt::Debug for Locked<S, Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Passing { .. } => "Passing",
            State::Failed { .. } => "Failed",
            State::Acquiring { .. } => "Acquiring",
            State::Running { .. } => "Running",
            State::Releasing { .. } => "Releasing",
        })
    }
}

pin_project! {
    /// A call that happens when it is first polled (rule 1).
    #[project = CallProjection]
    enum Call<S, Req>
    where
        S: Service<Req>,
    {
        Ready { inner: S, request: Option<Req> },
        UnderWay { #[pin] future: S::Future },
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
