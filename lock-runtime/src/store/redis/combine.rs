//! Several requests in one script, where many go out at once.
//!
//! While few requests are under way, each goes out by itself, at once, from the task that makes it:
//! a lone lock pays nothing. Past [`SIDE_BY_SIDE`] the others queue, and whatever has queued when an
//! answer comes goes out together. So a batch grows with the load and nobody waits for company.
//!
//! # Order
//!
//! A request made after another was dropped takes effect after it (S-21). Therefore nothing goes out
//! alone while others queue, the queue is sent from the front, and what is taken from it is handed to
//! the connection under the queue's mutex.
//!
//! # Ownership
//!
//! A batch belongs to a task of its own, so that none of the callers can take it along when dropped.
//! A caller that is gone is skipped if its request was not sent yet.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use redis::{RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout_at};

use super::errors::server_error;
use super::link::{CallError, Link, Live};
use super::request::Ask;
use super::script::{BATCH, is_noscript};
use crate::error::{StoreError, StoreErrorKind};

/// Scripts under way at once. More would make batches smaller; fewer would make a request wait
/// longer for a far server, a round trip divided by this.
const SIDE_BY_SIDE: usize = 4;

/// Requests in one script: bounds how long the server is busy with it.
const MAX_BATCH: usize = 64;

type Answer = Result<Value, StoreError>;

/// See the module.
pub(super) struct Combiner {
    link: Arc<Link>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: usize,
    queue: VecDeque<Entry>,
    next_number: u64,
}

struct Entry {
    number: u64,
    ask: Ask,
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

/// One of the scripts under way. Dropped while requests queue, it sees to them.
struct Slot<'a>(Option<&'a Arc<Combiner>>);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let Some(combiner) = self.0.take() else { return };
        let mut state = combiner.state();
        state.under_way -= 1;
        combiner.follow_up(&mut state);
    }
}

impl Combiner {
    pub(super) fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, state: Mutex::default() })
    }

    /// Runs one request, alone or with others.
    pub(super) async fn run(self: &Arc<Self>, ask: Ask) -> Answer {
        let deadline = Instant::now() + ask.timeout();
        if ask.part().is_none() {
            return self.run_alone(&ask, deadline).await;
        }
        let slot = {
            let mut state = self.state();
            let alone = state.queue.is_empty() && state.under_way < SIDE_BY_SIDE;
            if alone {
                state.under_way += 1;
            }
            alone.then(|| Slot(Some(self)))
        };
        match slot {
            Some(_slot) => self.run_alone(&ask, deadline).await,
            None => self.queue_up(ask, deadline).await,
        }
    }

    async fn run_alone(&self, ask: &Ask, deadline: Instant) -> Answer {
        let (script, call) = ask.alone();
        Ok(script.run(&self.link, &call, deadline).await?)
    }

    async fn queue_up(self: &Arc<Self>, ask: Ask, deadline: Instant) -> Answer {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            let number = state.next_number;
            state.next_number += 1;
            state.queue.push_back(Entry { number, ask, deadline, answer });
            self.follow_up(&mut state);
            number
        };
        match timeout_at(deadline, answered).await {
            Ok(Ok(answer)) => answer,
            // The task that had it went down with its runtime.
            Ok(Err(_)) => Err(CallError::TimedOut.into()),
            Err(_) => {
                let mut state = self.state();
                let queued = state.queue.iter().position(|entry| entry.number == number);
                Err(match queued.and_then(|at| state.queue.remove(at)) {
                    Some(_) => CallError::NotSent.into(),
                    None => CallError::TimedOut.into(),
                })
            }
        }
    }

    /// Starts a task for what has queued, if there is anything and it may go out.
    fn follow_up(self: &Arc<Self>, state: &mut State) {
        if state.queue.is_empty() || state.under_way >= SIDE_BY_SIDE {
            return;
        }
        // Outside of a runtime the queue waits for the next caller, who has one.
        let Ok(runtime) = Handle::try_current() else { return };
        state.under_way += 1;
        let combiner = Arc::clone(self);
        runtime.spawn(async move {
            let slot = Slot(Some(&combiner));
            combiner.send_queue().await;
            drop(slot);
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
                    let queue = std::mem::take(&mut self.state().queue);
                    answer_all(queue, &error.into());
                    continue;
                }
            };
            let Some(Batch { entries, sending }) = self.send_batch(&live).await else { return };
            let answer = self.link.judge(&live, timeout_at(latest, sending).await);
            match answer {
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
                    match BATCH.load(&self.link, latest).await {
                        // Nothing ran. Back to the front, from where those still wanted go out again.
                        Ok(()) => {
                            let mut state = self.state();
                            entries.into_iter().rev().for_each(|e| state.queue.push_front(e));
                        }
                        Err(error) => answer_all(entries, &error.into()),
                    }
                }
                Err(error) => answer_all(entries, &error.into()),
            }
        }
    }

    /// Takes a batch from the queue and hands it to the connection, both under the mutex.
    async fn send_batch(&self, live: &Live) -> Option<Batch> {
        poll_fn(|cx| {
            let mut state = self.state();
            let entries = state.take_batch();
            if entries.is_empty() {
                return Poll::Ready(None);
            }
            // The first poll puts it in line for the connection, however much this task has done.
            let mut sending: Sending = Box::pin(unconstrained(live.send(write_batch(&entries))));
            let sending = match sending.as_mut().poll(cx) {
                Poll::Pending => sending,
                Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            };
            Poll::Ready(Some(Batch { entries, sending }))
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Sending = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// Requests on their way in one script.
struct Batch {
    entries: Vec<Entry>,
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
            if !entry.answer.is_closed() {
                entries.push(entry);
            }
        }
        entries.sort_by_key(|entry| matches!(entry.ask, Ask::Release(_)));
        entries
    }
}

fn write_batch(entries: &[Entry]) -> redis::Cmd {
    let parts = || entries.iter().filter_map(|entry| Some((entry.ask.part()?, &entry.ask)));
    let mut call = BATCH.call(parts().map(|(part, _)| part.keys()).sum());
    for (_, ask) in parts() {
        ask.write_keys(&mut call);
    }
    for (part, ask) in parts() {
        part.write_number(&mut call);
        ask.write_args(&mut call);
    }
    call
}

fn answer_all(entries: impl IntoIterator<Item = Entry>, error: &StoreError) {
    for entry in entries {
        let _ = entry.answer.send(Err(error.clone()));
    }
}
