//! Renews holds: the [client's task](super::client_task) renews all that are due in batches.
//!
//! Every live hold is in one [schedule](super::schedule), by the time of its next action: a renewal; for holds that are not
//! renewed, the question to the store whether they are still the owner, each third of the lease, or their end. The task checks at least once a second, because its timers stop while the
//! machine sleeps and the deadline clock does not.
//!
//! A renewal never waits for an earlier one. A hold is due again within a third of its lease from when its last
//! confirmed renewal was sent, after a sixth without an answer, and after a tenth once there is an error. An
//! answer counts for as long as the deadline has not passed, so several renewals of one hold may be under way:
//! at most a few, or they would pile up while the store is down.
// S-10, S-11, S-9.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::batch::{Batch, Manner, Renewal, batches, log_first};
use super::in_flight::Begun;
use super::schedule::Schedule;
use super::{Hold, Pulse};
use crate::clock::{Clock, Tick};
use crate::error::LossCause;
use crate::observe::RenewOutcome;
use crate::store::{OnRenewed, Ownership, RenewRequest, Store};

/// Renewals of one hold that may be under way at once.
const MAX_UNDER_WAY: u8 = 4;

/// The longest the task sleeps while there are holds.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The shortest sleep, so that holds which fall due one by one are renewed together.
const GATHER: Duration = Duration::from_millis(5);

/// The queue of holds that the task works through.
pub(crate) struct Watchdog {
    clock: Clock,
    // Under this mutex no hold is declared lost, and no waker is called but that of the watchdog's own task, which only
    // schedules it.
    queue: Mutex<Queue>,
    /// Wakes the client's task.
    wake: Arc<Notify>,
    /// Notified when the last hold has ended.
    emptied: Notify,
    /// True if the last renewal failed or was not answered, by the store or a part of it.
    last_failed: AtomicBool,
    pulse: Arc<Pulse>,
    /// After this time without an answer, a renewal counts as failed.
    command_timeout: Duration,
}

#[derive(Default)]
struct Queue {
    due: Schedule,
    /// True if a hold was added since the task last checked. It then checks once more before it sleeps without
    /// a timer; otherwise every lock that is acquired alone would wake it.
    busy: bool,
    /// True if the task has to look now: it is woken for other work, too.
    is_called: bool,
    /// Until when the task plans to sleep.
    sleeping_until: Option<Tick>,
    closed: bool,
}

impl Watchdog {
    pub(crate) fn new(clock: Clock, command_timeout: Duration, wake: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            queue: Mutex::default(),
            wake,
            emptied: Notify::new(),
            last_failed: AtomicBool::new(false),
            command_timeout,
            pulse: Arc::default(),
        })
    }

    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// Starts to renew a hold.
    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        // A hold that is lost or released before this line is found so when it is due, at the latest.
        let mut queue = self.queue.lock();
        queue.busy = true;
        let lease = hold.renewal(hold.taken_at).unwrap_or(hold.lease.duration());
        let at = queue.due.renew_within(hold, hold.taken_at, lease);
        self.wake_for(&mut queue, at);
    }

    /// Stops renewing a hold.
    pub(crate) fn remove(&self, hold: &Hold) {
        let is_empty = {
            let mut queue = self.queue.lock();
            queue.due.remove(hold);
            queue.due.is_empty()
        };
        // After the unlock: a waker may run any code. Another hold may have been added since, and a shutdown then goes on
        // waiting.
        if is_empty {
            self.emptied.notify_waiters();
        }
    }

    /// Queues a hold anew after its renewal was switched on.
    pub(crate) fn reconsider(&self, hold: &Arc<Hold>) {
        let mut queue = self.queue.lock();
        queue.busy = true;
        let at = queue.due.act_at(hold, self.clock.now());
        self.wake_for(&mut queue, at);
    }

    /// Returns how many holds there are.
    pub(crate) fn holds(&self) -> usize {
        self.queue.lock().due.len()
    }

    /// Returns all holds.
    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.queue.lock().due.iter().cloned().collect()
    }

    /// Returns a hold for which `is_wanted` is true. Called under the queue's mutex, so that not all holds are
    /// copied.
    pub(crate) fn find(&self, mut is_wanted: impl FnMut(&Hold) -> bool) -> Option<Arc<Hold>> {
        self.queue.lock().due.iter().find(|hold| is_wanted(hold)).cloned()
    }

    /// True if the last renewal failed.
    pub(crate) fn last_failed(&self) -> bool {
        self.last_failed.load(Ordering::Relaxed)
    }

    /// Waits until there are no holds.
    pub(crate) async fn emptied(&self) {
        super::wait_until(&self.emptied, || self.holds() == 0).await;
    }

    /// Declares a hold lost that the store does not know any more, and stops renewing it.
    pub(crate) fn not_owner(&self, hold: &Hold) -> LossCause {
        let cause = hold.lose(LossCause::NotOwner);
        self.remove(hold);
        cause
    }

    /// Ends renewals. The task declares the end of the remaining holds, and ends with the last.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        (queue.closed, queue.is_called) = (true, true);
        self.wake.notify_one();
    }

    /// Has the next round of a task look at what is due.
    pub(super) fn call(&self) {
        self.queue.lock().is_called = true;
    }

    fn wake_for(&self, queue: &mut Queue, at: Tick) {
        if queue.sleeping_until.is_none_or(|until| at < until) {
            // Only once for the earliest: the task sets it again when it goes back to sleep.
            queue.sleeping_until = Some(at);
            queue.is_called = true;
            // A hold whose grant came late is due at once, which does not mean that the process stood still.
            self.pulse.plan(Some(at.max(self.clock.now())));
            self.wake.notify_one();
        }
    }

    /// Begins the renewals that are due, if it is time to look for them: at `look_at`, which is then the next time, or when a hold
    /// became due earlier.
    // No await between the look at the queue and the last of these: a task that is dropped has begun all that it has taken out.
    pub(super) fn begin_due(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        look_at: &mut Option<Instant>,
        begun: &Begun,
    ) {
        let is_time = look_at.is_some_and(|at| at <= Instant::now());
        if let Some(Work { renewals, wake_at }) = self.collect(is_time) {
            for batch in renewals {
                begun.push(Arc::clone(self).renew(Arc::clone(store), batch).boxed());
            }
            *look_at = wake_at.map(|at| at.max(Instant::now() + GATHER));
        }
    }

    /// Returns all due work; `None` if it is not time to look, and nothing calls for it.
    fn collect(&self, is_time: bool) -> Option<Work> {
        let mut queue = self.queue.lock();
        if !std::mem::take(&mut queue.is_called) && !is_time {
            return None;
        }
        let closed = queue.closed;
        let now = self.clock.now();
        self.pulse.runs(now);
        let mut renewals: HashMap<Manner, Vec<Renewal>> = HashMap::new();
        let (mut lost, mut overdue) = (Vec::new(), Vec::new());
        for hold in queue.due.take_due(now) {
            if hold.is_released() {
                continue;
            }
            if now >= hold.deadline() || !hold.is_held() {
                lost.push(hold);
            } else if let Some(lease) = hold.renewal(now).filter(|_| !closed) {
                match hold.deadline() {
                    end if end < now.after(lease / 6) => queue.due.end_at(&hold, end),
                    _ => queue.due.act_at(&hold, now.after(lease / 6)),
                };
                if hold.has_renewals() {
                    overdue.push(Arc::clone(&hold));
                }
                // A hold without guards waits for a task to take or join it, and that task may not be polled
                // any more: the hold ends with its lease (S-34).
                if hold.has_guards() && hold.renewal_begins(MAX_UNDER_WAY) {
                    renewals.entry(Manner::Renew(lease)).or_default().push(Renewal::new(hold));
                }
            } else {
                // Nothing else tells such a hold that its lock was taken away.
                let lease = hold.lease.duration();
                match hold.deadline() {
                    end if end < now.after(lease / 3) => queue.due.end_at(&hold, end),
                    _ => queue.due.act_at(&hold, now.after(lease / 3)),
                };
                if !closed && hold.has_guards() && hold.renewal_begins(MAX_UNDER_WAY) {
                    renewals.entry(Manner::Ask(lease)).or_default().push(Renewal::new(hold));
                }
            }
        }
        let until = queue.plan_sleep(now);
        self.pulse.plan(until);
        let wake_at = until.map(|at| self.clock.timer_for(at));
        let is_emptied = !lost.is_empty() && queue.due.is_empty();
        drop(queue);
        // From here on these holds may be released, or found lost by others; a deadline that has passed is not moved any more.
        // `lose` is no loss twice, and none after a release.
        if is_emptied {
            self.emptied.notify_waiters();
        }
        log_first(&overdue, None, "renewal has no answer yet");
        for hold in lost {
            hold.lose(LossCause::Deadline);
        }
        Some(Work { renewals: batches(renewals), wake_at })
    }

    async fn renew(self: Arc<Self>, store: Arc<dyn Store>, mut batch: Batch) {
        // The store may keep a hold that is being released for a time that must not be extended.
        batch.renewals.retain(|renewal| renewal.hold.is_held());
        // A hold that is released from here on: the renewal comes first, and the release ends what it has prolonged; or it
        // comes later, and the script finds no owner, or a hold that is kept for a while, whose end it leaves alone.
        let sent_at = self.clock.now();
        if batch.renewals.is_empty() {
            return;
        }
        // Until then an answer moves the deadline, if another renewal keeps the hold that long (S-9).
        let timeout = batch.manner.lease();
        let lease = batch.manner.renewed().unwrap_or_default();
        batch.renewals.iter().for_each(|renewal| renewal.hold.asks_for(sent_at, lease));
        let request = |Renewal { hold, .. }: &Renewal| {
            RenewRequest::new(Arc::clone(&hold.target), hold.owner.clone(), lease)
        };
        let requests = batch.renewals.iter().map(request).collect();
        let batch = Arc::new(batch);
        let on_renewed: OnRenewed = Arc::new({
            let (watchdog, batch) = (Arc::clone(&self), Arc::clone(&batch));
            move |place, answer| watchdog.renewed(&batch, place, sent_at, answer)
        });
        let mut renewing = std::pin::pin!(store.renew_each(requests, timeout, on_renewed));
        // An alert has to come before the loss, so it cannot wait for the end of the lease.
        let in_time = self.command_timeout.min(timeout / 6);
        let ended = match tokio::time::timeout(in_time, renewing.as_mut()).await {
            Ok(ended) => ended,
            // Overdue, and still awaited: an answer counts until the deadline. The hold is due again meanwhile.
            Err(_) => {
                if batch.manner.renewed().is_some() {
                    batch.renewals.iter().for_each(Renewal::fails_if_open);
                }
                renewing.await
            }
        };
        (0..batch.renewals.len())
            .for_each(|place| self.renewed(&batch, place, sent_at, Ownership::Unknown));
        if batch.manner.renewed().is_none() {
            return;
        }
        let failed = std::mem::take(&mut *batch.failed.lock());
        log_first(&failed, ended.as_ref().err(), "renewal failed");
        self.last_failed.store(ended.is_err() || !failed.is_empty(), Ordering::Relaxed);
    }

    /// Acts on an answer: the first, or a later one that declares the hold lost.
    fn renewed(&self, batch: &Batch, place: usize, sent_at: Tick, answer: Ownership) {
        let Some(renewal) = batch.renewals.get(place) else { return };
        let Renewal { hold, .. } = renewal;
        let is_first = renewal.end();
        let lease = batch.manner.lease();
        match answer {
            _ if hold.is_released() => {}
            // A loss even if a later renewal was confirmed before: one of several servers may have reported it
            // late.
            Ownership::NotOwner if hold.is_held() => {
                hold.recorder.renewed(RenewOutcome::NotOwner);
                self.not_owner(hold);
            }
            // The next question comes in its time. Without an answer nothing is known, and nothing was to be kept.
            _ if batch.manner.renewed().is_none() => {}
            Ownership::Owner if is_first && hold.is_held() => {
                hold.recorder.renewed(RenewOutcome::Renewed);
                hold.confirm(sent_at, lease);
                let mut queue = self.queue.lock();
                // A hold that was released meanwhile has left the queue for good: it was marked before `remove` locked this
                // mutex. One that is marked after this look is removed after this entry.
                if hold.is_held() {
                    queue.due.renew_within(hold, sent_at, lease);
                }
            }
            // Unknown is not lost (S-9). An answer after the loss counts as none.
            _ if is_first => {
                if answer == Ownership::Unknown {
                    batch.failed.lock().push(Arc::clone(hold));
                }
                renewal.fails();
                let again = sent_at.after(lease / 10).max(self.clock.now());
                let mut queue = self.queue.lock();
                if hold.is_held() && Schedule::is_due_after(hold, again) {
                    let again = queue.due.act_at(hold, again);
                    self.wake_for(&mut queue, again);
                }
            }
            _ => {}
        }
    }
}

/// The work of one round.
struct Work {
    renewals: Vec<Batch>,
    wake_at: Option<Instant>,
}

impl Queue {
    /// Records when the task should wake up, if there is a reason to.
    fn plan_sleep(&mut self, now: Tick) -> Option<Tick> {
        let due = self.due.first();
        let awake = std::mem::take(&mut self.busy) || due.is_some();
        let heartbeat = awake.then(|| now.after(HEARTBEAT));
        self.sleeping_until = [due, heartbeat].into_iter().flatten().min();
        self.sleeping_until
    }
}
