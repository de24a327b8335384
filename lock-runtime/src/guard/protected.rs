//! [`Protected`]: a body that is polled only while a hold is valid, for callers that keep their guard apart.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::LockGuard;
use super::run::{Started, Watch};
use crate::error::LockError;
use crate::observe::RunOutcome;
use crate::opaque::opaque_debug;

pin_project! {
    /// A body that is polled only while a hold is valid, and dropped when it is lost. [`LockGuard::run`] is
    /// built on it; use it for hand-written futures and streams that keep their guard apart.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll};
    ///
    /// use lock_runtime::__layer_v1::Protected;
    /// use lock_runtime::{LockError, LockGuard};
    ///
    /// /// Two numbers, each looked up while the lock is held.
    /// fn poll_both<F: Future<Output = u32>>(
    ///     mut lookup: Pin<&mut Protected<F>>,
    ///     guard: &LockGuard,
    ///     cx: &mut Context<'_>,
    /// ) -> Poll<Result<u32, LockError>> {
    ///     lookup.as_mut().poll_with(guard, cx, |lookup, cx| lookup.poll(cx))
    /// }
    /// ```
    // S-13.
    pub struct Protected<B> {
        #[pin]
        body: Option<B>,
        #[pin]
        watch: Watch,
    }
}

impl<B> Protected<B> {
    /// Protects `body` from its first poll on. Costs nothing before that.
    pub fn new(body: B) -> Self {
        Self { body: Some(body), watch: Watch::going_on() }
    }

    /// Protects a future that runs to its end.
    pub(crate) fn to_end(future: B) -> Self {
        Self { body: Some(future), watch: Watch::default() }
    }

    /// Returns the body; `None` once it is dropped.
    pub fn get_ref(&self) -> Option<&B> {
        self.body.as_ref()
    }

    /// Returns the body, so that the caller can poll it without a guard after the release.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Option<Pin<&mut B>> {
        self.project().body.as_pin_mut()
    }

    /// Drops a body that has ended, so that its destructor runs before the guard's.
    pub fn clear(self: Pin<&mut Self>) {
        self.drop_body(RunOutcome::Done);
    }

    /// Drops the body before its end, or after it has panicked: as [`clear`](Self::clear), but the span of the
    /// hold ends as `cancelled`.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    ///
    /// use lock_runtime::__layer_v1::Protected;
    /// use lock_runtime::LockClient;
    ///
    /// let guard = LockClient::in_memory().mutex("order:42").lock().await?;
    /// let mut upload = pin!(Protected::new(std::future::pending::<()>()));
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(upload.as_mut().poll_with(&guard, &mut cx, |upload, cx| upload.poll(cx)).is_pending());
    /// // It takes too long.
    /// upload.as_mut().cancel();
    /// assert!(upload.get_ref().is_none());
    /// guard.release().await?;
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(self: Pin<&mut Self>) {
        self.drop_body(RunOutcome::Cancelled);
    }

    fn drop_body(self: Pin<&mut Self>, outcome: RunOutcome) {
        let mut this = self.project();
        this.watch.leave(outcome, || this.body.set(None));
    }

    /// Polls the body under `guard`, which must be the same each time.
    ///
    /// Inside, an acquire of the guard's lock is re-entry. While the body is pending, the task is also woken
    /// when the hold is lost. Polled after the body was dropped, it stays pending.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] as soon as the hold is lost; the body has then been dropped, together with the
    /// result of a poll that lasted past the deadline. With [`OnLost::Finish`](crate::options::OnLost::Finish)
    /// the body may be polled further, and the caller may check [`is_lost`](LockGuard::is_lost) when it has
    /// ended.
    ///
    /// # Cancel safety
    ///
    /// It is a poll: between two polls only the body itself is under way.
    // S-6.
    pub fn poll_with<T>(
        self: Pin<&mut Self>,
        guard: &LockGuard,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut B>, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, LockError>> {
        let this = self.project();
        if this.body.is_none() {
            return Poll::Pending;
        }
        let mut step = Step { body: this.body, poll: Some(poll), value: None };
        let pinned: Pin<&mut Step<'_, _, _, _>> = Pin::new(&mut step);
        ready!(this.watch.poll(guard, pinned, cx))?;
        step.value.map_or(Poll::Pending, |value| Poll::Ready(Ok(value)))
    }
}

impl<F: Future> Protected<F> {
    /// Polls a future that runs [to its end](Self::to_end), and drops it there.
    pub(crate) fn poll_to_end(
        mut self: Pin<&mut Self>,
        guard: &LockGuard,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        let result = ready!(self.as_mut().poll_with(guard, cx, F::poll));
        self.clear();
        Poll::Ready(result)
    }
}

/// One poll of the body.
struct Step<'a, B, P, T> {
    body: Pin<&'a mut Option<B>>,
    poll: Option<P>,
    value: Option<T>,
}

/// Only the body is pinned, and it is pinned elsewhere.
impl<B, P, T> Unpin for Step<'_, B, P, T> {}

impl<B, P, T> Started for Step<'_, B, P, T>
where
    P: FnOnce(Pin<&mut B>, &mut Context<'_>) -> Poll<T>,
{
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { body, poll, value } = &mut *self;
        let (Some(body), Some(poll)) = (body.as_mut().as_pin_mut(), poll.take()) else {
            return Poll::Pending;
        };
        *value = Some(ready!(poll(body, cx)));
        Poll::Ready(())
    }

    fn end(mut self: Pin<&mut Self>) {
        self.value = None;
        self.body.set(None);
    }
}

opaque_debug!(<B> Protected<B>);
