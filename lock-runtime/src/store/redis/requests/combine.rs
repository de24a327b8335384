//! Several requests in one script, when many are sent at once.
//!
//! While at most [`SIDE_BY_SIDE`] scripts are under way, each caller sends its own request at once: a single request
//! pays nothing. Further requests queue. The queue is sent in one script when an answer comes, when it fills a batch,
//! or when nothing has been sent for [`OVERDUE`]. So batches grow with the load, and a slow server delays a queued
//! request by at most [`OVERDUE`].
//!
//! # Order
//!
//! A request must take effect after every request that was dropped before it was made. So no request is sent alone
//! while others queue, the queue is sent from the front, and a batch is passed to the connection while the queue's
//! mutex is held.
//!
//! # Ownership
//!
//! A task of its own sends a batch, so that no caller takes the batch along when it is dropped. A request whose
//! caller is gone is skipped if it was not sent yet.
//!
//! # Progress
//!
//! The holder of a slot may be unable to free it: its future is not polled, its runtime shuts down, or the connection
//! is silent. So each caller in the queue checks the queue from time to time, and sends what is overdue whether or not
//! a slot is free.
// S-21.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout_at};

use super::HoldRequest;
use crate::error::StoreError;
use crate::store::HoldKind;
use crate::store::redis::link::{Connection, Link};
use crate::store::redis::scripts::{
    BATCH, MAX_KEYS, MUTEX_BATCH, Publish, ScriptCall, is_noscript,
};
use crate::store::redis::server::errors::{CallError, server_error};

/// The number of scripts under way at once, unless requests are overdue. More would make batches smaller.
const SIDE_BY_SIDE: usize = 2;

/// The maximum number of requests in one script.
const MAX_BATCH: usize = MAX_KEYS / 4;

/// For how long the scripts under way may delay the queue.
const OVERDUE: Duration = Duration::from_millis(1);

type Answer = Result<Value, StoreError>;

/// Sends requests of one link, several in one script when many queue.
pub(crate) struct Combiner {
    link: Arc<Link>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: usize,
    /// When a slot was last taken or a batch sent.
    moved: Option<Instant>,
    queue: VecDeque<Entry>,
    next_number: u64,
}

struct Entry {
    number: u64,
    request: HoldRequest,
    deadline: Instant,
    /// True if the server denied it together with others, so that it is sent alone.
    alone: bool,
    answer: oneshot::Sender<Answer>,
}

/// A slot for one script under way. Dropping it while requests queue sends them.
struct Slot {
    combiner: Arc<Combiner>,
    /// False in a task that has not run yet: a runtime that shuts down drops it at once, and would drop the next one
    /// as well.
    sends_queue: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.combiner.state.lock().under_way -= 1;
        if self.sends_queue {
            self.combiner.follow_up(false);
        }
    }
}

impl Combiner {
    pub(crate) fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, state: Mutex::default() })
    }

    /// Sends one request, alone or with others.
    pub(crate) async fn run(self: &Arc<Self>, request: HoldRequest) -> Answer {
        let now = Instant::now();
        let deadline = now + request.timeout();
        let publish = self.link.publish();
        // In a cluster, requests of one slot seldom meet, and others cannot share a script.
        let _slot = if request.part().is_some() && publish == Publish::Everywhere {
            let slot = {
                let mut state = self.state.lock();
                let is_free = state.queue.is_empty() && state.under_way < SIDE_BY_SIDE;
                is_free.then(|| self.take_slot(&mut state, now, true))
            };
            let Some(slot) = slot else { return self.queue_up(request, deadline).await };
            Some(slot)
        } else {
            None
        };
        // In a box of its own, which a request that queues does not need.
        Ok(Box::pin(self.link.run(&request.call(publish), deadline)).await?)
    }

    fn take_slot(self: &Arc<Self>, state: &mut State, now: Instant, sends_queue: bool) -> Slot {
        state.under_way += 1;
        state.moved = Some(now);
        Slot { combiner: Arc::clone(self), sends_queue }
    }

    async fn queue_up(self: &Arc<Self>, request: HoldRequest, deadline: Instant) -> Answer {
        let (answer, mut answered) = oneshot::channel();
        let (number, full) = {
            let mut state = self.state.lock();
            let number = state.next_number;
            state.next_number += 1;
            state.queue.push_back(Entry { number, request, deadline, alone: false, answer });
            (number, state.queue.len().is_multiple_of(MAX_BATCH))
        };
        self.follow_up(full);
        let mut pause = OVERDUE;
        loop {
            let look = Instant::now() + pause;
            match timeout_at(deadline.min(look), &mut answered).await {
                Ok(Ok(answer)) => return answer,
                // The task that had it ended with its runtime.
                Ok(Err(_)) => return Err(CallError::TimedOut.into()),
                Err(_) if look < deadline => {
                    pause *= 2;
                    self.follow_up(false);
                }
                Err(_) => return Err(self.out_of_time(number).into()),
            }
        }
    }

    /// The error of a request whose time is over.
    fn out_of_time(&self, number: u64) -> CallError {
        // Its batch may have a later deadline, but the connection is silent already.
        self.link.suspect();
        let mut state = self.state.lock();
        let queued = state.queue.iter().position(|entry| entry.number == number);
        match queued.and_then(|at| state.queue.remove(at)) {
            Some(_) => self.link.away(),
            None => CallError::TimedOut,
        }
    }

    /// Starts a task that sends the queue, if it is not empty and a slot is free, a batch is `full`, or it is overdue.
    fn follow_up(self: &Arc<Self>, full: bool) {
        // Outside of a runtime, another caller in the queue follows up.
        let Ok(runtime) = Handle::try_current() else { return };
        let slot = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let overdue =
                || state.moved.is_none_or(|at| now >= at + OVERDUE) && self.link.is_connected();
            if state.queue.is_empty() || !(full || state.under_way < SIDE_BY_SIDE || overdue()) {
                return;
            }
            self.take_slot(&mut state, now, false)
        };
        // Not under the mutex: a runtime that shuts down drops the task, and with it the slot, here.
        runtime.spawn(async move {
            let mut slot = slot;
            slot.sends_queue = true;
            slot.combiner.send_queue().await;
        });
    }

    /// Sends one batch after the other until the queue is empty.
    async fn send_queue(&self) {
        loop {
            let Some(latest) = self.state.lock().queue.iter().map(|entry| entry.deadline).max()
            else {
                return;
            };
            let connection = match self.link.connected(latest).await {
                Ok(connection) => connection,
                Err(error) => {
                    // Requests that have queued meanwhile may have later deadlines.
                    let over = self.state.lock().take_until(latest);
                    answer_all(over, &error.into());
                    continue;
                }
            };
            let Some(Batch { entries, call, until, sending }) = self.send_batch(&connection).await
            else {
                return;
            };
            let reply = self.link.judge(&connection, timeout_at(until, sending).await);
            let answers = reply
                .and_then(|reply| self.link.answers_of(&connection, &call, entries.len(), reply));
            match answers {
                Ok(answers) => {
                    for (entry, answer) in entries.into_iter().zip(answers) {
                        let answer = answer.extract_error().map_err(|error| {
                            self.link.heed(&connection, &error);
                            server_error(error)
                        });
                        let _ = entry.answer.send(answer);
                    }
                }
                Err(CallError::Server(error)) if is_noscript(&error) => {
                    match Box::pin(self.link.load(&call, until)).await {
                        // Nothing ran.
                        Ok(()) => self.state.lock().put_back(entries),
                        Err(error) => answer_all(entries, &error.into()),
                    }
                }
                Err(CallError::Server(error))
                    if error.code() == Some("NOPERM") && entries.len() > 1 =>
                {
                    // Nothing ran, perhaps because of a key that only one of the requests has.
                    let alone = entries.into_iter().map(|entry| Entry { alone: true, ..entry });
                    self.state.lock().put_back(alone.collect());
                }
                Err(error) => answer_all(entries, &error.into()),
            }
        }
    }

    /// Takes a batch from the queue and passes it to the connection, both under the mutex.
    async fn send_batch(&self, connection: &Connection) -> Option<Batch> {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            let entries = state.take_batch();
            let Some(until) = entries.iter().map(|entry| entry.deadline).max() else {
                return Poll::Ready(None);
            };
            state.moved = Some(Instant::now());
            // Unconstrained: the first poll sends it, however much this task has done.
            let call = write_batch(&entries);
            let mut sending: Sending = Box::pin(unconstrained(connection.send(call.cmd().clone())));
            let sending = match sending.as_mut().poll(cx) {
                Poll::Pending => sending,
                Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            };
            Poll::Ready(Some(Batch { entries, call, until, sending }))
        })
        .await
    }
}

type Sending = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// Requests that one script carries.
struct Batch {
    entries: Vec<Entry>,
    call: ScriptCall,
    /// The latest of their deadlines.
    until: Instant,
    sending: Sending,
}

impl State {
    /// Takes the first requests whose callers still wait. Acquires come before releases, or memory that a release
    /// frees in the same script would hide that the server has none left.
    fn take_batch(&mut self) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.queue.len().min(MAX_BATCH));
        let mut keys = 0;
        while entries.len() < MAX_BATCH
            && let Some(entry) = self.queue.pop_front()
        {
            if entry.answer.is_closed() {
                continue;
            }
            keys += entry.request.part().map_or(0, |part| part.keys);
            if (entry.alone || keys > MAX_KEYS) && !entries.is_empty() {
                self.queue.push_front(entry);
                break;
            }
            let alone = entry.alone;
            entries.push(entry);
            if alone {
                break;
            }
        }
        entries.sort_by_key(|entry| matches!(entry.request, HoldRequest::Release(_)));
        entries
    }

    /// Puts requests back to the front, in the order in which they came, which matters to a fair lock when two batches
    /// come back at once.
    fn put_back(&mut self, entries: Vec<Entry>) {
        self.queue.extend(entries);
        self.queue.make_contiguous().sort_by_key(|entry| entry.number);
    }

    /// Takes the requests with a deadline up to `end`.
    fn take_until(&mut self, end: Instant) -> VecDeque<Entry> {
        let queue = std::mem::take(&mut self.queue).into_iter();
        let (over, left) = queue.partition(|entry| entry.deadline <= end);
        self.queue = left;
        over
    }
}

fn write_batch(entries: &[Entry]) -> ScriptCall {
    let parts = || entries.iter().filter_map(|entry| Some((entry.request.part()?, &entry.request)));
    let is_mutex = |entry: &Entry| entry.request.target().kind() == HoldKind::Mutex;
    let script = if entries.iter().all(is_mutex) { &MUTEX_BATCH } else { &BATCH };
    let keys = parts().map(|(part, _)| part.keys).sum();
    script.call(Publish::Everywhere, keys, |call| {
        for (_, request) in parts() {
            request.write_keys(call);
        }
        let mut last = 0;
        for (at, (part, request)) in parts().enumerate() {
            if part.number != last {
                last = part.number;
                let same = parts().skip(at).take_while(|(part, _)| part.number == last);
                call.arg(last).arg(same.count());
            }
            request.write_args(call);
        }
    })
}

fn answer_all(entries: impl IntoIterator<Item = Entry>, error: &StoreError) {
    for entry in entries {
        let _ = entry.answer.send(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests;
