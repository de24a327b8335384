//! The task that sends the queue.
//!
//! It starts with the first request that queues and ends when the queue is empty and all its batches are answered.

use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::poll_fn;
use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use redis::{RedisResult, Value};
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::task::coop::unconstrained;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::queue::{Key, Pump};
use super::{Combiner, overdue};
use crate::error::StoreError;
use crate::store::redis::link::Connection;
use crate::store::redis::scripts::{Answer, ScriptCall, is_noscript};
use crate::store::redis::server::errors::{CallError, server_error};
use crate::store::redis::server::short_limit;

/// A pump that has not looked at the queue for this long does not run: it looks each [`OVERDUE`](super::OVERDUE).
const STALLED: Duration = Duration::from_millis(100);

/// What the pump does next.
enum Next {
    Send,
    /// Answer the requests whose time is over.
    Expire,
    /// Wait from now on for an answer or a request, and until then.
    Wait {
        now: Instant,
        until: Option<Instant>,
    },
    End,
}

impl Pump {
    /// False if requests have queued for longer than it takes the pump to look at them.
    pub(super) fn is_polled(&self, now: Instant) -> bool {
        now < self.looked + short_limit(STALLED)
    }
}

impl Combiner {
    /// Starts a pump if requests queue and none sends them.
    pub(super) fn keep_pumping(self: &Arc<Self>) {
        let (number, runtime, callers) = {
            let mut queue = self.queue.lock();
            let now = Instant::now();
            let runs = |pump: &Pump| pump.is_polled(now) || !self.link.is_connected();
            if !queue.has_unsent() || queue.pump.as_ref().is_some_and(runs) {
                return;
            }
            // Without the runtime of the connection, no answer comes; so that one is driven, if any is.
            let of_link = self
                .link
                .runtime()
                .filter(|runtime| queue.pump.is_none() && queue.ended != Some(runtime.id()));
            // Outside of a runtime, another caller starts it.
            let Some(runtime) = of_link.or_else(|| Handle::try_current().ok()) else { return };
            let stalled = queue.pump.take().map(|stalled| stalled.number);
            let number = stalled.map_or(0, |stalled| stalled + 1);
            queue.pump = Some(Pump { number, runtime: runtime.id(), waker: None, looked: now });
            (number, runtime, stalled.map_or_else(Vec::new, |_| queue.callers()))
        };
        // Not under the mutex: a runtime that shuts down drops the task here.
        let task = Task { combiner: Arc::clone(self), number, runtime: runtime.id() };
        runtime.spawn(task.run());
        wake(callers);
    }

    /// Decides what pump `number` does next; it has batches under way unless it is `idle`.
    fn next(&self, number: u64, idle: bool, cx: &Context<'_>) -> Next {
        let mut queue = self.queue.lock();
        let is_mine = |pump: &&mut Pump| pump.number == number;
        let now = Instant::now();
        let due_at = match (self.link.is_cluster(), self.link.is_connected()) {
            (true, true) => queue.has_unsent().then_some(now),
            (_, is_connected) => queue.due_at(now, is_connected),
        };
        let (has_unsent, earliest) = (queue.has_unsent(), queue.earliest);
        let Some(pump) = queue.pump.as_mut().filter(is_mine) else {
            // Another one sends the queue, since this one was not polled for long.
            return if idle { Next::End } else { Next::Wait { now, until: None } };
        };
        pump.looked = now;
        if due_at.is_some_and(|due_at| due_at <= now) {
            queue.batches += 1;
            return Next::Send;
        }
        if idle && !has_unsent {
            queue.pump = None;
            return Next::End;
        }
        if earliest.is_some_and(|earliest| now >= earliest) {
            return Next::Expire;
        }
        let Some(pump) = &mut queue.pump else { return Next::End };
        match &mut pump.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            waker => *waker = Some(cx.waker().clone()),
        }
        Next::Wait { now, until: due_at.into_iter().chain(earliest).min() }
    }

    /// Answers the requests whose time is over.
    fn expire(&self) {
        let over = self.queue.lock().out_of_time(Instant::now());
        let answer = |(key, sent)| (key, self.why_out_of_time(sent).into());
        let answers: Vec<(Key, StoreError)> = over.into_iter().map(answer).collect();
        let callers = {
            let mut queue = self.queue.lock();
            let answer = |(key, error)| queue.answer(&[key], [Err(error)]);
            answers.into_iter().flat_map(answer).collect()
        };
        wake(callers);
    }

    /// Sends one batch, waits for its answers and passes them on. Returns the callers that are yet to be woken.
    async fn send_batch(self: Arc<Self>) -> Vec<Waker> {
        let _counted = Counted(&self);
        let Some(latest) = self.queue.lock().latest() else { return Vec::new() };
        let connection = match self.link.connected(latest).await {
            Ok(connection) => connection,
            Err(error) => {
                // Requests that have queued meanwhile may have later deadlines.
                return self.queue.lock().answer_until(latest, &error.into());
            }
        };
        let Some(Sent { mut batch, call, until, sending }) = self.send(&connection).await else {
            return Vec::new();
        };
        let reply = self.link.judge(&connection, timeout_at(until, sending).await);
        let requests = batch.keys.len();
        let answers_of = |reply: Result<Value, CallError>| {
            reply.and_then(|reply| self.link.answers_of(&connection, &call, requests, reply))
        };
        let mut answers = answers_of(reply);
        if matches!(&answers, Err(CallError::Server(error, _)) if is_noscript(error)) {
            answers =
                answers_of(Box::pin(self.link.load_and_call(&connection, &call, until)).await);
        }
        match answers {
            Ok(answers) => return batch.answer(&connection, answers),
            Err(CallError::Server(error, _)) if error.code() == Some("NOPERM") && requests > 1 => {
                // Nothing ran, perhaps because of a key that only one of the requests has.
                batch.put_back(true);
            }
            Err(CallError::Server(error, _))
                if error.code() == Some("CROSSSLOT") && requests > 1 =>
            {
                // Nothing ran, and the link knows by now that each has to be sent alone.
                batch.put_back(false);
            }
            Err(error) => batch.fail(&error.into()),
        }
        Vec::new()
    }

    /// Takes a batch from the queue and passes it to the connection, both under the mutex.
    async fn send(self: &Arc<Self>, connection: &Connection) -> Option<Sent> {
        poll_fn(|cx| {
            let mut queue = self.queue.lock();
            let share = if self.link.is_cluster() { 1 } else { queue.share() };
            let keys = queue.take_batch(share);
            let Some((call, until)) = queue.write(&keys) else { return Poll::Ready(None) };
            queue.moved = Some(Instant::now());
            // Unconstrained: the first poll sends it, however much this task has done.
            let mut sending: Sending = Box::pin(unconstrained(connection.send(call.cmd().clone())));
            let sending = match sending.as_mut().poll(cx) {
                Poll::Pending => sending,
                Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            };
            let batch = Batch { combiner: Arc::clone(self), keys };
            Poll::Ready(Some(Sent { batch, call, until, sending }))
        })
        .await
    }
}

impl Combiner {
    /// Wakes the callers of a batch: now, or soon and together if there are many.
    fn wake_callers(&self, callers: Vec<Waker>, now: Instant) -> Option<Crowd> {
        if self.queue.lock().has_time() {
            return Some(Crowd::wake_soon(callers, now + overdue()));
        }
        wake(callers);
        None
    }
}

fn wake(callers: Vec<Waker>) {
    callers.into_iter().for_each(Waker::wake);
}

/// Adds the pump to the callers, so that it runs after all that are tasks of its own runtime: the next batch then has what they ask
/// next. A runtime of the current thread runs tasks in the order in which they were woken; a worker of another runtime runs the task
/// first that it has woken last. Where neither holds, batches are smaller.
pub(super) fn put_behind(callers: &mut Vec<Waker>, pump: Waker, is_current_thread: bool) {
    let runs_first = usize::from(!is_current_thread);
    callers.insert(callers.len().saturating_sub(runs_first), pump);
}

/// Callers that are woken together, once this thread has nothing else to do, and the pump with them. Woken one by one, the
/// first of them start another thread of the runtime, which runs those and sleeps again before the last is woken, several
/// times for each batch.
///
/// The pump keeps it. If it is dropped, with the pump, it wakes those that sleep.
// S-34.
pub(super) struct Crowd {
    sleepers: Arc<Sleepers>,
    /// When the pump wakes them, should this thread be busy for so long.
    latest: Instant,
}

struct Sleepers(Mutex<Vec<Waker>>);

impl Crowd {
    pub(super) fn wake_soon(callers: Vec<Waker>, latest: Instant) -> Self {
        let sleepers = Arc::new(Sleepers(Mutex::new(callers)));
        // A future that is pending owes its task a wake-up, and this one pays it as late as that.
        let waker = Waker::from(Arc::clone(&sleepers));
        let _ = pin!(yield_now()).poll(&mut Context::from_waker(&waker));
        Self { sleepers, latest }
    }

    /// Until when they are not woken yet; wakes them if that is over.
    pub(super) fn asleep_until(&self, now: Instant) -> Option<Instant> {
        if self.sleepers.0.lock().is_empty() {
            return None;
        }
        if now < self.latest {
            return Some(self.latest);
        }
        self.sleepers.wake_by_ref();
        None
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.sleepers.wake_by_ref();
    }
}

impl Wake for Sleepers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let callers = mem::take(&mut *self.0.lock());
        wake(callers);
    }
}

type Sending = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// A batch under way.
struct Sent {
    batch: Batch,
    call: ScriptCall,
    /// The latest deadline of its requests.
    until: Instant,
    sending: Sending,
}

/// Requests that one script carries. If it is dropped, with its task, they fail.
struct Batch {
    combiner: Arc<Combiner>,
    keys: Vec<Key>,
}

impl Batch {
    /// Returns the callers.
    fn answer(&mut self, connection: &Connection, answers: Vec<Answer>) -> Vec<Waker> {
        let link = &self.combiner.link;
        // Before the queue is locked.
        answers.iter().for_each(|answer| link.heed_answer(connection, answer));
        let keys = std::mem::take(&mut self.keys);
        let answers = answers.into_iter().map(|answer| {
            answer.unless_error().map_err(|error| server_error(error, link.address_of(connection)))
        });
        self.combiner.queue.lock().answer(&keys, answers)
    }

    fn fail(&mut self, error: &StoreError) {
        let keys = std::mem::take(&mut self.keys);
        let answers = std::iter::repeat_with(|| Err(error.clone()));
        let callers = self.combiner.queue.lock().answer(&keys, answers);
        wake(callers);
    }

    /// Queues the requests again, since nothing ran; to be sent `alone` if that is set.
    fn put_back(&mut self, alone: bool) {
        let keys = std::mem::take(&mut self.keys);
        self.combiner.queue.lock().put_back(&keys, alone);
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            self.fail(&self.combiner.link.late().into());
        }
    }
}

/// Counts a batch as under way until it is dropped.
struct Counted<'a>(&'a Combiner);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().batches -= 1;
    }
}

struct Task {
    combiner: Arc<Combiner>,
    number: u64,
    runtime: Id,
}

impl Task {
    async fn run(self) {
        let mut under_way = FuturesUnordered::new();
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        let mut crowd: Option<Crowd> = None;
        let is_current_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        poll_fn(|cx| {
            loop {
                let (now, until) = match self.combiner.next(self.number, under_way.is_empty(), cx) {
                    Next::Send => {
                        let mut batch = Box::pin(Arc::clone(&self.combiner).send_batch());
                        // The first poll sends it, before further answers are passed on.
                        match batch.as_mut().poll(cx) {
                            Poll::Pending => under_way.push(batch),
                            Poll::Ready(callers) => wake(callers),
                        }
                        continue;
                    }
                    Next::Expire => {
                        self.combiner.expire();
                        continue;
                    }
                    Next::End => return Poll::Ready(()),
                    Next::Wait { now, until } => (now, until),
                };
                // The callers of a batch ask again before those of the next one are woken.
                let asleep_until = crowd.as_ref().and_then(|crowd| crowd.asleep_until(now));
                if asleep_until.is_none()
                    && let Poll::Ready(Some(mut callers)) = under_way.poll_next_unpin(cx)
                {
                    put_behind(&mut callers, cx.waker().clone(), is_current_thread);
                    crowd = self.combiner.wake_callers(callers, now);
                    if crowd.is_none() {
                        return Poll::Pending;
                    }
                    continue;
                }
                let Some(until) = until.into_iter().chain(asleep_until).min() else {
                    return Poll::Pending;
                };
                let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
                timer.as_mut().reset(until);
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }
}

impl Drop for Task {
    /// If it ends with its runtime, a caller starts another.
    fn drop(&mut self) {
        let callers = {
            let mut queue = self.combiner.queue.lock();
            if queue.pump.as_ref().is_some_and(|pump| pump.number == self.number) {
                queue.pump = None;
                queue.ended = Some(self.runtime);
            }
            if queue.pump.is_some() { Vec::new() } else { queue.unsent_callers() }
        };
        wake(callers);
    }
}
