//! The caller's side.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use redis::{RedisResult, Value};

use super::SharedStream;

/// How far an exchange is.
pub(super) enum Stage {
    Waiting(Option<Waker>),
    /// The answer has come, and the task works off what came before it.
    Held(RedisResult<Value>, Option<Waker>),
    /// The caller is gone, and its answer has not come.
    Dropped,
    Answered(RedisResult<Value>),
}

/// An exchange under way. Dropping it leaves the answer to be read and ignored.
pub(crate) struct Exchange<'a> {
    shared: &'a SharedStream,
    is_over: bool,
}

impl<'a> Exchange<'a> {
    pub(super) fn of(shared: &'a SharedStream) -> Self {
        Self { shared, is_over: false }
    }
}

impl Future for Exchange<'_> {
    type Output = RedisResult<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_over {
            return Poll::Pending;
        }
        let waker = Some(cx.waker().clone());
        // Dropped after the unlock: a waker may be the last to own its task.
        let _before;
        let mut state = self.shared.state.lock();
        match state.exchange.take() {
            Some(Stage::Answered(answer)) => {
                drop(state);
                self.is_over = true;
                return Poll::Ready(answer);
            }
            Some(Stage::Held(answer, before)) => {
                _before = before;
                state.exchange = Some(Stage::Held(answer, waker));
            }
            Some(Stage::Waiting(before)) => {
                _before = before;
                state.exchange = Some(Stage::Waiting(waker));
            }
            None | Some(Stage::Dropped) => {}
        }
        drop(state);
        Poll::Pending
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.shared.state.lock();
            let before = state.exchange.take();
            if matches!(before, Some(Stage::Waiting(_))) {
                state.exchange = Some(Stage::Dropped);
            }
            drop(state);
        }
    }
}
