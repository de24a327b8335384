//! Several requests in one script, where many go out at once.
//!
//! While few requests are under way, each goes out by itself, at once, from the task that makes it:
//! a lone lock pays nothing. Past [`SIDE_BY_SIDE`] the others queue, and whatever has queued goes out
//! together when an answer comes, when it fills a batch, or when nothing went out for [`OVERDUE`]. So
//! a batch grows with the load, and a far server costs nobody more than that.
//!
//! # Order
//!
//! A request made after another was dropped takes effect after it. Therefore nothing goes out
//! alone while others queue, the queue is sent from the front, and what is taken from it is handed to
//! the connection under the queue's mutex.
//!
//! # Ownership
//!
//! A batch belongs to a task of its own, so that none of the callers can take it along when dropped.
//! A caller that is gone is skipped if its request was not sent yet.
//!
//! # Progress
//!
//! Whoever is to free a place may be unable to: a future that nobody polls, a runtime that shuts
//! down, a connection that went silent. So whoever queues looks after the queue now and then, and
//! what is overdue goes out whoever has the places.
// S-21.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout_at};

use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::link::{CallError, Connection, Link, Notices};
use crate::store::redis::requests::ScriptCall;
use crate::store::redis::scripts::numbered::NumberedCall;
use crate::store::redis::scripts::{BATCH, MAX_KEYS, is_noperm, is_noscript};
use crate::store::redis::server::errors::server_error;

/// Scripts under way at once, as long as that holds nobody up. More would make batches smaller.
const SIDE_BY_SIDE: usize = 2;

/// Requests in one script. Each has four keys at most.
const MAX_BATCH: usize = MAX_KEYS / 4;

/// For how long the scripts under way may keep others from going out.
const OVERDUE: Duration = Duration::from_millis(1);

type Answer = Result<Value, StoreError>;

/// See the module.
pub(crate) struct Combiner {
    link: Arc<Link>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: usize,
    /// When a place was last taken or a batch sent.
    moved: Option<Instant>,
    queue: VecDeque<Entry>,
    next_number: u64,
}

struct Entry {
    number: u64,
    ask: ScriptCall,
    deadline: Instant,
    /// True if it was refused together with others and has to go out without them.
    apart: bool,
    answer: oneshot::Sender<Answer>,
}

/// The place of one script under way. Dropped while requests queue, it sees to them.
struct Slot {
    combiner: Arc<Combiner>,
    /// False in a task that has not run yet: a runtime that is shutting down drops it at once, and
    /// would do the same to the next.
    sees_to_queue: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.combiner.state().under_way -= 1;
        if self.sees_to_queue {
            self.combiner.follow_up(false);
        }
    }
}

impl Combiner {
    pub(crate) fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, state: Mutex::default() })
    }

    /// Runs one request, alone or with others.
    pub(crate) async fn run(self: &Arc<Self>, ask: ScriptCall) -> Answer {
        let now = Instant::now();
        let deadline = now + ask.timeout();
        // Names of one slot seldom meet, and others cannot share a script.
        if ask.part().is_none() || self.link.notices().are_in_slot() {
            return self.run_alone(&ask, deadline).await;
        }
        let slot = {
            let mut state = self.state();
            let alone = state.queue.is_empty() && state.under_way < SIDE_BY_SIDE;
            alone.then(|| self.take_slot(&mut state, now, true))
        };
        match slot {
            Some(_slot) => self.run_alone(&ask, deadline).await,
            None => self.queue_up(ask, deadline).await,
        }
    }

    async fn run_alone(&self, ask: &ScriptCall, deadline: Instant) -> Answer {
        let (script, call) = ask.alone(self.link.notices());
        Ok(script.run(&self.link, call, deadline).await?)
    }

    fn take_slot(self: &Arc<Self>, state: &mut State, now: Instant, sees_to_queue: bool) -> Slot {
        state.under_way += 1;
        state.moved = Some(now);
        Slot { combiner: Arc::clone(self), sees_to_queue }
    }

    async fn queue_up(self: &Arc<Self>, ask: ScriptCall, deadline: Instant) -> Answer {
        let (answer, mut answered) = oneshot::channel();
        let (number, full) = {
            let mut state = self.state();
            let number = state.next_number;
            state.next_number += 1;
            state.queue.push_back(Entry { number, ask, deadline, apart: false, answer });
            (number, state.queue.len().is_multiple_of(MAX_BATCH))
        };
        self.follow_up(full);
        let mut pause = OVERDUE;
        loop {
            let look = Instant::now() + pause;
            match timeout_at(deadline.min(look), &mut answered).await {
                Ok(Ok(answer)) => return answer,
                // The task that had it went down with its runtime.
                Ok(Err(_)) => return Err(CallError::TimedOut.into()),
                Err(_) if look < deadline => {
                    pause *= 2;
                    self.follow_up(false);
                }
                Err(_) => return Err(self.out_of_time(number).into()),
            }
        }
    }

    /// What the end of its time means for a request.
    fn out_of_time(&self, number: u64) -> CallError {
        // Its batch may have longer, but the connection is silent already.
        self.link.suspect();
        let mut state = self.state();
        let queued = state.queue.iter().position(|entry| entry.number == number);
        match queued.and_then(|at| state.queue.remove(at)) {
            Some(_) => self.link.away(),
            None => CallError::TimedOut,
        }
    }

    /// Starts a task for what has queued, if there is anything and it may go out: where there is a
    /// place, where a `full` batch has come together and would gain nothing by waiting, or where it
    /// is overdue.
    fn follow_up(self: &Arc<Self>, full: bool) {
        // Outside of a runtime the queue waits for whoever looks after it next.
        let Ok(runtime) = Handle::try_current() else { return };
        let slot = {
            let mut state = self.state();
            let now = Instant::now();
            let overdue =
                || state.moved.is_none_or(|at| now >= at + OVERDUE) && self.link.is_connected();
            if state.queue.is_empty() || !(full || state.under_way < SIDE_BY_SIDE || overdue()) {
                return;
            }
            self.take_slot(&mut state, now, false)
        };
        // Not under the mutex: a runtime that is shutting down drops the task, and so the slot, here.
        runtime.spawn(async move {
            let mut slot = slot;
            slot.sees_to_queue = true;
            slot.combiner.send_queue().await;
        });
    }

    /// Sends one batch after the other until nothing is left in the queue.
    async fn send_queue(&self) {
        loop {
            let Some(latest) = self.state().queue.iter().map(|entry| entry.deadline).max() else {
                return;
            };
            let live = match self.link.connected(latest).await {
                Ok(live) => live,
                Err(error) => {
                    // Who has come meanwhile may have longer.
                    let over = self.state().take_until(latest);
                    answer_all(over, &error.into());
                    continue;
                }
            };
            let Some(Batch { entries, call, until, sending }) = self.send_batch(&live).await else {
                return;
            };
            let answer = self.link.judge(&live, timeout_at(until, sending).await);
            match answer.and_then(|reply| self.link.answer_of(&live, &call, reply)) {
                Ok(Value::Array(answers)) if answers.len() == entries.len() => {
                    for (entry, answer) in entries.into_iter().zip(answers) {
                        let answer = answer.extract_error().map_err(|error| {
                            self.link.heed(&live, &error);
                            server_error(error)
                        });
                        let _ = entry.answer.send(answer);
                    }
                }
                Ok(_) => {
                    let error = "a lock script answered something unexpected";
                    answer_all(entries, &StoreError::new(StoreErrorKind::Protocol, error));
                }
                Err(CallError::Server(error)) if is_noscript(&error) => {
                    match BATCH.load(&self.link, until).await {
                        // Nothing ran.
                        Ok(()) => self.state().put_back(entries),
                        Err(error) => answer_all(entries, &error.into()),
                    }
                }
                Err(CallError::Server(error)) if is_noperm(&error) && entries.len() > 1 => {
                    // Refused before it ran, perhaps for one key that is not all the others'.
                    let apart = entries.into_iter().map(|entry| Entry { apart: true, ..entry });
                    self.state().put_back(apart.collect());
                }
                Err(error) => answer_all(entries, &error.into()),
            }
        }
    }

    /// Takes a batch from the queue and hands it to the connection, both under the mutex.
    async fn send_batch(&self, live: &Connection) -> Option<Batch> {
        poll_fn(|cx| {
            let mut state = self.state();
            let entries = state.take_batch();
            let Some(until) = entries.iter().map(|entry| entry.deadline).max() else {
                return Poll::Ready(None);
            };
            state.moved = Some(Instant::now());
            // The first poll puts it in line for the connection, however much this task has done.
            let call = write_batch(&entries);
            let mut sending: Sending = Box::pin(unconstrained(live.send(call.cmd().clone())));
            let sending = match sending.as_mut().poll(cx) {
                Poll::Pending => sending,
                Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            };
            Poll::Ready(Some(Batch { entries, call, until, sending }))
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

type Sending = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// Requests on their way in one script.
struct Batch {
    entries: Vec<Entry>,
    call: NumberedCall,
    /// The latest of their deadlines.
    until: Instant,
    sending: Sending,
}

impl State {
    /// The first requests that are still wanted. Those that take come before those that free, or
    /// memory freed in the same script would hide that there is none left.
    fn take_batch(&mut self) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.queue.len().min(MAX_BATCH));
        while entries.len() < MAX_BATCH
            && let Some(entry) = self.queue.pop_front()
        {
            if entry.answer.is_closed() {
                continue;
            }
            if entry.apart && !entries.is_empty() {
                self.queue.push_front(entry);
                break;
            }
            let apart = entry.apart;
            entries.push(entry);
            if apart {
                break;
            }
        }
        entries.sort_by_key(|entry| matches!(entry.ask, ScriptCall::Release(_)));
        entries
    }

    /// Back to the front, from where those still wanted go out again. In the order in which they
    /// came, which matters to a fair lock when two batches come back at once.
    fn put_back(&mut self, entries: Vec<Entry>) {
        self.queue.extend(entries);
        self.queue.make_contiguous().sort_by_key(|entry| entry.number);
    }

    /// Takes out those whose deadline is no later than `end`.
    fn take_until(&mut self, end: Instant) -> VecDeque<Entry> {
        let queue = std::mem::take(&mut self.queue).into_iter();
        let (over, left) = queue.partition(|entry| entry.deadline <= end);
        self.queue = left;
        over
    }
}

fn write_batch(entries: &[Entry]) -> NumberedCall {
    let parts = || entries.iter().filter_map(|entry| Some((entry.ask.part()?, &entry.ask)));
    let mut call = BATCH.call(&Notices::Everywhere, parts().map(|(part, _)| part.keys()).sum());
    for (_, ask) in parts() {
        ask.write_keys(&mut call);
    }
    for (part, ask) in parts() {
        part.write_number(&mut call);
        ask.write_args(&mut call);
    }
    NumberedCall::new(call)
}

fn answer_all(entries: impl IntoIterator<Item = Entry>, error: &StoreError) {
    for entry in entries {
        let _ = entry.answer.send(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests;
