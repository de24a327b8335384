//! Several requests in one script, when many are sent at once.
//!
//! While [few](FEW) requests are under way, each caller sends its own request at once: they pay nothing.
//! Further requests queue, and a task, the [pump](pump), sends them in one script, a batch: at once while none is under
//! way; beside another one when the queue has as many requests as that one, or one less if all callers have asked; in any
//! case when nothing has been sent for [`OVERDUE`]. So batches grow with the load, and a slow server delays a queued
//! request by at most [`OVERDUE`].
//!
//! Under a steady load, batches of equal size follow each other: the server runs one while this process works on the
//! answers to another. If all requests went in one script, each side would wait for the other in turns. Answers that
//! come together would bring that about, so the pump passes on one batch of them at a time.
//!
//! # Order
//!
//! A request must take effect after every request that was dropped before it was made. So no request is sent alone
//! while others queue, the queue is sent from the front, and a batch is passed to the connection while the queue's
//! mutex is held.
//!
//! # Ownership
//!
//! A request is in the table of [requests](queue) until its caller, which has the [`Ticket`], takes the answer or is
//! dropped. The queue and the batches only name it, so no caller takes a batch along, and a request whose caller is
//! gone is not sent.
//!
//! # Progress
//!
//! The pump runs where the connection's own task does, or where its first caller is. It answers the requests whose time
//! is over, so a caller of the same runtime needs no timer: it is not polled either if that runtime is not driven. Any
//! other caller looks at the pump from time to time, and starts another one if it does not run. That one wakes all
//! callers, which do not rely on a pump any more once they were polled in vain.
// S-21.

mod pump;
mod queue;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep, sleep_until};

use self::queue::{Entry, Queue, Stage};
use super::HoldRequest;
use crate::error::StoreError;
use crate::liveness::SIGN_OF_LIFE;
use crate::store::redis::link::Link;
use crate::store::redis::scripts::{Answer, MAX_KEYS, Publish};
use crate::store::redis::server::errors::CallError;
use crate::store::redis::server::short_limit;

/// While fewer requests are under way, each is sent alone: a batch of so few saves the server less than its callers lose by waiting
/// for each other.
const FEW: usize = 16;

/// From so many requests at a time on, the callers of a batch are [woken together](pump), which takes time at first.
const MANY: usize = 40;

/// The number of scripts under way at once, unless requests are overdue. More would make batches smaller.
const SIDE_BY_SIDE: usize = 2;

/// The maximum number of requests in one script. Those of a read or write lock have more keys than four, and more
/// [work](MAX_WORK).
const MAX_BATCH: usize = MAX_KEYS / 4;

/// The maximum work of one script, of which a mutex is one: others wait for the whole script.
const MAX_WORK: u32 = 256;

/// For how long the scripts under way may delay the queue.
const OVERDUE: Duration = Duration::from_millis(1);

fn overdue() -> Duration {
    short_limit(OVERDUE)
}

type Answered = Result<Answer, StoreError>;

/// Sends requests of one link, several in one script when many queue.
pub(crate) struct Combiner {
    link: Arc<Link>,
    queue: Mutex<Queue>,
}

impl Combiner {
    pub(crate) fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, queue: Mutex::default() })
    }

    /// Sends one request, alone or with others, and resolves to its answer.
    #[inline]
    pub(crate) fn ask(self: &Arc<Self>, request: HoldRequest) -> Asked {
        let now = Instant::now();
        let deadline = now + request.timeout();
        let publish = self.link.publish();
        // In a cluster, requests of one slot seldom meet, and others cannot share a script.
        let part = request.part().filter(|_| publish == Publish::Everywhere);
        let _slot = if let Some(part) = part {
            let mut queue = self.queue.lock();
            let goes_alone = match self.link.is_cluster() {
                // Behind those that queued before that was known.
                true => !queue.has_unsent(),
                false => queue.lets_one_go_alone(),
            };
            if !goes_alone {
                let (key, pump) = queue.add(request, part, now, deadline);
                // A pump that was not polled for long is replaced.
                let runs = queue.pump.as_ref().is_some_and(|pump| pump.is_polled(now));
                drop(queue);
                if let Some(pump) = pump {
                    pump.wake();
                }
                if !runs {
                    self.keep_pumping();
                }
                return Asked::Queued(Ticket {
                    combiner: Arc::clone(self),
                    key: Some(key),
                    deadline,
                    is_polled: false,
                    timer: None,
                });
            }
            queue.alone += 1;
            Some(Slot(Arc::clone(self)))
        } else {
            None
        };
        let link = Arc::clone(&self.link);
        if !link.is_quiet() {
            return Asked::alone(async move {
                let _slot = _slot;
                let alone = Alone::new(request);
                // The first request on a new connection waits for it here, so that it knows when it is sent.
                let connected = link.connected(deadline).await;
                let request = alone.sent();
                let answer = match connected {
                    Ok(_) => link.run(&request.call(publish), deadline).await,
                    Err(error) => Err(error),
                };
                Ok(answer.map_err(|error| error.within(request.timeout()))?)
            });
        }
        Asked::alone(async move {
            let _slot = _slot;
            let alone = Alone::new(request);
            let pack = |to: &mut Vec<u8>| alone.sent().pack(publish, to);
            let answer = link.run_alone(deadline, pack, || alone.sent().call(publish)).await;
            alone.sent();
            Ok(answer.map_err(|error| error.within(deadline - now))?)
        })
    }
}

/// A request that its caller sends alone.
struct Alone {
    request: HoldRequest,
    /// True as soon as it may have been sent. Atomic because the future that has it is `Send`.
    is_sent: AtomicBool,
}

impl Alone {
    fn new(request: HoldRequest) -> Self {
        Self { request, is_sent: AtomicBool::new(false) }
    }

    /// Returns it to be sent now.
    fn sent(&self) -> &HoldRequest {
        self.is_sent.store(true, Ordering::Relaxed);
        &self.request
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if !self.is_sent.load(Ordering::Relaxed) {
            self.request.dropped_unsent();
        }
    }
}

/// A script under way that its caller has sent alone. It may not be polled for long, so it delays the queue by
/// [`OVERDUE`] at most.
// S-34.
struct Slot(Arc<Combiner>);

impl Drop for Slot {
    fn drop(&mut self) {
        let pump = {
            let mut queue = self.0.queue.lock();
            queue.alone -= 1;
            queue.wake_pump()
        };
        if let Some(pump) = pump {
            pump.wake();
        }
    }
}

/// A request under way.
pub(crate) enum Asked {
    /// Sent by its caller, at the first poll.
    Alone(Pin<Box<dyn Future<Output = Answered> + Send>>),
    /// Sent by the pump.
    Queued(Ticket),
}

impl Asked {
    /// A request that its caller sends, at the first poll.
    pub(crate) fn alone(sending: impl Future<Output = Answered> + Send + 'static) -> Self {
        Self::Alone(Box::pin(sending))
    }
}

impl Future for Asked {
    type Output = Answered;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answered> {
        match self.get_mut() {
            Self::Alone(alone) => alone.as_mut().poll(cx),
            Self::Queued(ticket) => ticket.poll(cx),
        }
    }
}

/// A caller's right to the answer of a queued request. Dropping it drops the request.
pub(crate) struct Ticket {
    combiner: Arc<Combiner>,
    /// `None` once it was answered.
    key: Option<queue::Key>,
    deadline: Instant,
    is_polled: bool,
    /// If it does not rely on the pump.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Ticket {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answered> {
        let Some(key) = self.key else { return Poll::Pending };
        let pump = {
            let mut queue = self.combiner.queue.lock();
            if let Some(answer) = queue.poll(key, cx) {
                self.key = None;
                return Poll::Ready(answer);
            }
            queue.pump.as_ref().map(|pump| pump.runtime)
        };
        let is_first = !std::mem::replace(&mut self.is_polled, true);
        if is_first && pump.is_some() && pump == current_runtime() {
            return Poll::Pending;
        }
        if self.timer.is_none() {
            self.combiner.keep_pumping();
        }
        loop {
            let look = || (Instant::now() + SIGN_OF_LIFE).min(self.deadline);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(look())));
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= self.deadline {
                self.key = None;
                return Poll::Ready(self.combiner.out_of_time(key));
            }
            self.combiner.keep_pumping();
            timer.as_mut().reset(look());
        }
    }
}

fn current_runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let dropped = self.combiner.queue.lock().remove(key);
            // It is dropped after the unlock, and the word is left after that: a waker that is dropped with it may drop a task,
            // and that another request.
            if let Some(Entry { request, stage, caller, .. }) = dropped {
                drop(caller);
                if matches!(stage, Stage::Unsent) {
                    request.dropped_unsent();
                }
            }
        }
    }
}

impl Combiner {
    /// The answer to a request whose time is over.
    fn out_of_time(&self, key: queue::Key) -> Answered {
        let dropped = self.queue.lock().remove(key);
        match dropped.map(|entry| (entry.request.timeout(), entry.stage)) {
            Some((_, Stage::Answered(answer))) => answer,
            Some((_, Stage::Unsent)) => Err(self.why_out_of_time(None).into()),
            Some((limit, Stage::Sent)) => Err(self.why_out_of_time(Some(limit)).into()),
            None => Err(self.link.late().into()),
        }
    }

    /// The error of a request that was sent and had so much time, or that was not sent.
    fn why_out_of_time(&self, sent: Option<Duration>) -> CallError {
        // Its batch may have a later deadline, but the connection is silent already.
        self.link.suspect();
        match sent {
            Some(limit) => self.link.late().within(limit),
            None => self.link.away(),
        }
    }
}

#[cfg(test)]
mod tests;
