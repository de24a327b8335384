//! The side of the client library's task.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

use super::SharedStream;

/// The part of the client library's task.
pub(crate) struct TaskStream(pub(super) Arc<SharedStream>);

impl AsyncRead for TaskStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let progress = ready!(poll_proceed(cx));
        let mut woken = [None, None];
        let polled = {
            let mut state = self.0.state.lock();
            match &mut state.task {
                Some(task) => task.clone_from(cx.waker()),
                task => *task = Some(cx.waker().clone()),
            }
            state.poll_read(&mut woken, buf)
        };
        woken.into_iter().flatten().for_each(Waker::wake);
        if polled.is_ready() {
            progress.made_progress();
        }
        polled
    }
}

impl AsyncWrite for TaskStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.state.lock();
        ready!(state.poll_unwritten(cx))?.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state.lock();
        ready!(state.poll_unwritten(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state.lock();
        ready!(state.poll_unwritten(cx))?.poll_shutdown(cx)
    }
}

impl Drop for TaskStream {
    /// Closes the connection.
    fn drop(&mut self) {
        let stream = self.0.state.lock().stream.take();
        drop(stream);
        self.0.fail("the connection's task has ended");
    }
}

/// A call of the task under way.
pub(crate) struct TaskCall<'a> {
    shared: &'a SharedStream,
    /// How many calls were dropped before it.
    dropped: u64,
    is_answered: bool,
}

impl<'a> TaskCall<'a> {
    pub(super) fn of(shared: &'a SharedStream) -> Self {
        let mut state = shared.state.lock();
        state.calls += 1;
        Self { shared, dropped: state.dropped, is_answered: false }
    }

    /// Its answer has come, and so have those to all calls before it.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for TaskCall<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.calls -= 1;
        if !self.is_answered {
            state.dropped += 1;
            state.is_unclear = true;
        } else if state.dropped == self.dropped {
            state.is_unclear = false;
        }
    }
}
