//! The stream of a connection: the client library's task uses it, and a lone request passes that task by.
//!
//! A request through the task takes two channels and wakes two tasks, which costs more than writing it and reading the
//! answer. So while the task waits for no answer, a caller may [exchange](SharedStream::exchange) a request for its
//! answer: it writes the request itself, the event that the answer has come reads it, and the task sleeps on.
//!
//! # Order
//!
//! The server answers in order. An exchange begins between two messages, when all that the task has sent is answered.
//! So the next message that is not pushed is its answer; what the task writes meanwhile is behind it. The task gets all
//! other bytes, in their order. A call of the task that was dropped may still be answered: only the answer to a later
//! call shows that it was.
//!
//! What the server pushed before an answer takes effect before it: a release, for example, has counted its own
//! notification. So the caller gets the answer once the task has worked off all that it was given before.
//!
//! # Progress
//!
//! The waker registered with the stream is always [`Relay`]. It reads an answer to an exchange itself, so a caller that
//! is not polled delays neither pushed messages nor the answers to others.
// S-34.

mod exchange;
mod task;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};

use parking_lot::Mutex;
use redis::{RedisResult, Value, parse_redis_value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop::unconstrained;

use self::exchange::{Exchange, Stage};
pub(crate) use self::task::TaskCall;
use self::task::TaskStream;
use super::frames::Frames;

/// The room for an answer to an exchange. It grows for longer ones.
const ROOM: usize = 1024;

/// How much one event reads at most, about: the driver of the runtime waits meanwhile.
const AT_ONCE: usize = 64 * 1024;

/// The stream of one connection.
pub(crate) struct SharedStream {
    state: Mutex<State>,
}

struct State {
    /// `None` once the task has ended.
    stream: Option<TcpStream>,
    /// Always registered with the stream.
    relay: Waker,
    /// Of all that was read.
    frames: Frames,
    exchange: Option<Stage>,
    /// The request of an exchange, as far as it is not written. Usually empty, and its room used again.
    unwritten: Vec<u8>,
    /// The task, which waits for something to read.
    task: Option<Waker>,
    /// The calls of the task that are under way.
    calls: usize,
    /// How many calls of the task were dropped before their answers.
    dropped: u64,
    /// True if the answer to a dropped call may still come.
    is_unclear: bool,
    has_failed: bool,
    /// What was read for an exchange, and how much of it is in `frames`.
    buffer: Vec<u8>,
    filled: usize,
    scanned: usize,
    /// What was read during an exchange and belongs to the task.
    for_task: VecDeque<u8>,
    /// True until the task reads again after it was given something: it works that off first.
    is_behind: bool,
}

/// Reads, or wakes the task to read.
struct Relay(Weak<SharedStream>);

impl SharedStream {
    /// Shares a stream with the client library's task.
    pub(crate) fn new(stream: TcpStream) -> (Arc<Self>, TaskStream) {
        let shared = Arc::new_cyclic(|shared| {
            let relay = Waker::from(Arc::new(Relay(Weak::clone(shared))));
            Self { state: Mutex::new(State::new(stream, relay)) }
        });
        (Arc::clone(&shared), TaskStream(shared))
    }

    /// Sends a request that the caller waits for alone, and that `write` writes to an empty buffer. `None` if the task has
    /// to send it, since answers are outstanding or the stream is not ready; nothing was written then.
    pub(crate) fn exchange<T>(
        &self,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> Option<(T, Exchange<'_>)> {
        let mut state = self.state.lock();
        if !state.is_quiet() {
            return None;
        }
        let State { stream: Some(stream), unwritten, .. } = &mut *state else { return None };
        let result = write(unwritten);
        match stream.try_write(unwritten) {
            Ok(written) if written > 0 => drop(unwritten.drain(..written)),
            // The task finds out why.
            Ok(_) | Err(_) => {
                unwritten.clear();
                return None;
            }
        }
        let rest = if unwritten.is_empty() { None } else { state.task.clone() };
        state.exchange = Some(Stage::Waiting(None));
        drop(state);
        rest.into_iter().for_each(Waker::wake);
        Some((result, Exchange::of(self)))
    }

    /// True if an [exchange](Self::exchange) may begin.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.lock().is_quiet()
    }

    /// Counts a call of the task as under way until it is dropped.
    pub(crate) fn call(&self) -> TaskCall<'_> {
        TaskCall::of(self)
    }

    /// Ends an exchange under way: its answer, should it come, counts no more. So none may begin from now on.
    pub(crate) fn fail(&self, why: &'static str) {
        let error = io::Error::new(ErrorKind::ConnectionAborted, why).into();
        let caller = {
            let mut state = self.state.lock();
            state.has_failed = true;
            state.end_exchange(Err(error))
        };
        caller.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn new(stream: TcpStream, relay: Waker) -> Self {
        Self {
            stream: Some(stream),
            relay,
            frames: Frames::default(),
            exchange: None,
            unwritten: Vec::new(),
            task: None,
            calls: 0,
            dropped: 0,
            // The client library has sent commands of its own, which may be answered late.
            is_unclear: true,
            has_failed: false,
            buffer: vec![0; ROOM],
            filled: 0,
            scanned: 0,
            for_task: VecDeque::new(),
            is_behind: false,
        }
    }

    /// True if the next message that is not pushed answers the next request.
    fn is_quiet(&self) -> bool {
        self.calls == 0
            && !self.is_unclear
            && !self.has_failed
            && self.exchange.is_none()
            && self.unwritten.is_empty()
            && self.frames.is_between()
    }

    fn is_exchanging(&self) -> bool {
        matches!(self.exchange, Some(Stage::Waiting(_) | Stage::Dropped))
    }

    /// Returns the caller to wake.
    fn end_exchange(&mut self, answer: RedisResult<Value>) -> Option<Waker> {
        match self.exchange.take() {
            Some(Stage::Waiting(caller) | Stage::Held(_, caller)) => {
                self.exchange = Some(Stage::Answered(answer));
                caller
            }
            Some(Stage::Dropped) | None => None,
            answered => {
                self.exchange = answered;
                None
            }
        }
    }

    /// As [`end_exchange`](Self::end_exchange), once the task has worked off what came before.
    fn answer_exchange(&mut self, answer: RedisResult<Value>, is_first: bool) -> Option<Waker> {
        if is_first && !self.is_behind {
            return self.end_exchange(answer);
        }
        if let Some(Stage::Waiting(caller)) = self.exchange.take() {
            self.exchange = Some(Stage::Held(answer, caller));
        }
        None
    }

    /// The task has worked off all that it was given. Returns the caller to wake.
    fn caught_up(&mut self) -> Option<Waker> {
        self.is_behind = false;
        match self.exchange.take() {
            Some(Stage::Held(answer, caller)) => {
                self.exchange = Some(Stage::Answered(answer));
                caller
            }
            other => {
                self.exchange = other;
                None
            }
        }
    }

    /// Reads until the exchange is answered, nothing more has come, or it has read [`AT_ONCE`]. Returns the caller to wake.
    fn receive(&mut self) -> Option<Waker> {
        let mut count = 0;
        loop {
            if let Some((answer, is_first)) = self.answer() {
                return self.answer_exchange(answer, is_first);
            }
            if count >= AT_ONCE {
                return None;
            }
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.filled, 0);
            }
            let mut free = ReadBuf::new(&mut self.buffer[self.filled..]);
            let stream = self.stream.as_mut()?;
            let read = poll_stream(stream, &self.relay, &mut free);
            let more = free.filled().len();
            match read {
                Poll::Pending => return None,
                Poll::Ready(Ok(())) if more > 0 => {
                    self.filled += more;
                    count += more;
                }
                // The task reads the same.
                Poll::Ready(Ok(())) => {
                    return self.end_exchange(Err(closed().into()));
                }
                Poll::Ready(Err(error)) => return self.end_exchange(Err(error.into())),
            }
        }
    }

    /// The answer to the exchange, if it has been read, and whether nothing that the task has not read came before it. What
    /// was pushed before it, and all that follows, goes to the task.
    fn answer(&mut self) -> Option<(RedisResult<Value>, bool)> {
        while let Some(end) = self.frames.end_in(&self.buffer[self.scanned..self.filled]) {
            let end = self.scanned + end;
            self.scanned = end;
            if self.buffer[0] != b'>' {
                let (answer, is_first) = (value_of(&self.buffer[..end]), self.for_task.is_empty());
                self.frames.pass(&self.buffer[end..self.filled]);
                self.pass_on(end, self.filled);
                return Some((answer, is_first));
            }
            self.for_task.extend(&self.buffer[..end]);
            self.buffer.copy_within(end..self.filled, 0);
            self.filled -= end;
            self.scanned = 0;
        }
        self.scanned = self.filled;
        self.frames.is_broken().then(|| {
            self.pass_on(0, self.filled);
            let error = io::Error::new(ErrorKind::InvalidData, "the server sends no messages");
            (Err(error.into()), true)
        })
    }

    /// Leaves a part of the buffer to the task, and empties the buffer.
    fn pass_on(&mut self, from: usize, to: usize) {
        self.for_task.extend(&self.buffer[from..to]);
        (self.filled, self.scanned) = (0, 0);
        if self.buffer.len() > AT_ONCE {
            self.buffer = vec![0; ROOM];
        }
    }

    /// Handles bytes that have arrived. Returns the wakers of the exchange's caller and of the task, where they have to wake.
    fn on_event(&mut self) -> [Option<Waker>; 2] {
        let mut caller = None;
        if self.is_exchanging() {
            caller = self.receive();
            let Some(stream) = &self.stream else { return [caller, None] };
            // Registers the relay again. If there is more, or an error, the task reads it.
            if self.for_task.is_empty() && is_drained(stream, &self.relay) {
                return [caller, None];
            }
        }
        [caller, self.task.take()]
    }

    /// Reads for the task. `woken` receives the waker of the exchange's caller, and the task's own if the exchange has more to
    /// read.
    fn poll_read(&mut self, woken: &mut [Option<Waker>; 2], buf: &mut ReadBuf<'_>) -> PollIo<()> {
        if self.for_task.is_empty() {
            woken[0] = self.caught_up();
        }
        if self.is_exchanging() {
            woken[0] = self.receive();
        }
        if !self.for_task.is_empty() {
            self.fill(buf);
            self.is_behind = true;
            return Poll::Ready(Ok(()));
        }
        let is_exchanging = self.is_exchanging();
        let Some(stream) = &mut self.stream else { return Poll::Ready(Err(closed())) };
        if is_exchanging {
            if !is_drained(stream, &self.relay) {
                woken[1].clone_from(&self.task);
            }
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(poll_stream(stream, &self.relay, buf))?;
        self.frames.pass(&buf.filled()[before..]);
        self.is_behind = true;
        Poll::Ready(Ok(()))
    }

    /// Passes on what belongs to the task.
    fn fill(&mut self, buf: &mut ReadBuf<'_>) {
        let (first, _) = self.for_task.as_slices();
        let count = first.len().min(buf.remaining());
        buf.put_slice(&first[..count]);
        self.for_task.drain(..count);
        if self.for_task.is_empty() && self.for_task.capacity() > AT_ONCE {
            self.for_task = VecDeque::new();
        }
    }

    /// Writes the rest of the exchange's request.
    fn poll_unwritten(&mut self, cx: &mut Context<'_>) -> PollIo<Pin<&mut TcpStream>> {
        let Self { stream: Some(stream), unwritten, .. } = self else {
            return Poll::Ready(Err(closed()));
        };
        while !unwritten.is_empty() {
            match ready!(Pin::new(&mut *stream).poll_write(cx, unwritten))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => drop(unwritten.drain(..written)),
            }
        }
        Poll::Ready(Ok(Pin::new(stream)))
    }
}

type PollIo<T> = Poll<io::Result<T>>;

/// Reads, or registers the relay. Unconstrained, since a task that has done much would be woken at once: the relay would
/// wait for the lock that is held here.
fn poll_stream(stream: &mut TcpStream, relay: &Waker, buf: &mut ReadBuf<'_>) -> PollIo<()> {
    let read = std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, buf));
    pin!(unconstrained(read)).poll(&mut Context::from_waker(relay))
}

/// True if there is nothing to read; the relay is then registered.
fn is_drained(stream: &TcpStream, relay: &Waker) -> bool {
    let readable = std::future::poll_fn(|cx| stream.poll_read_ready(cx));
    pin!(unconstrained(readable)).poll(&mut Context::from_waker(relay)).is_pending()
}

/// What a message says. Usually it is short text.
fn value_of(message: &[u8]) -> RedisResult<Value> {
    let text = message.strip_prefix(b"$").and_then(|rest| rest.strip_suffix(b"\r\n"));
    let text =
        text.and_then(|rest| Some(&rest[rest.iter().position(|byte| *byte == b'\n')? + 1..]));
    match text {
        Some(text) => Ok(Value::BulkString(text.to_vec())),
        None => parse_redis_value(message),
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(shared) = self.0.upgrade() else { return };
        let woken = shared.state.lock().on_event();
        woken.into_iter().flatten().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
