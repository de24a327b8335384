//! Releases dropped holds: the one task to which guards and cancelled acquires hand their holds. It also runs the client's other
//! jobs: asking the store for waiters.
//!
//! A job is repeated until the store has answered or the lease has ended by itself. Jobs are sent at once and
//! concurrently, in the order in which they arrived, on the connection that carried the requests they undo.
// S-20, S-21.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::UnderWay;
use super::in_flight::Begun;
use crate::backoff::Backoff;
use crate::clock::{Clock, Tick};
use crate::key::LockKey;
use crate::observe::{Label, Meter, ReleaseOutcome, log_lock};
use crate::store::{OwnerId, ReleaseReply, ReleaseRequest, Store, Target};

/// First and longest pause between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Called once with the answer to the first attempt, if there was one.
pub(crate) type AfterRelease = Box<dyn FnOnce(Option<ReleaseReply>) + Send>;

/// Work for one of the client's keys, besides releases.
pub(crate) trait ClientJob: Send {
    /// The future that does it; `None` if nothing is left to do. If that is dropped before its end, it has what is left done anew.
    // Until then it must not keep the client, which keeps it.
    fn start(self: Box<Self>) -> Option<BoxFuture<'static, ()>>;
}

/// One that was begun elsewhere. It keeps the client; but a waiter that leaves drops what is in it.
impl ClientJob for BoxFuture<'static, ()> {
    fn start(self: Box<Self>) -> Option<BoxFuture<'static, ()>> {
        Some(*self)
    }
}

/// A hold to release.
pub(crate) struct ReleaseJob {
    pub(crate) target: Arc<Target>,
    pub(crate) owner: OwnerId,
    /// The store keeps the hold until then, because of `at_least`.
    pub(crate) keep_until: Option<Tick>,
    /// When the hold has ended in the store by itself, whatever it was asked for.
    pub(crate) until: Tick,
    /// True if a request that acquires this hold may still be under way on another connection: then "not the
    /// owner" may only mean "not yet", and the release is sent once more later.
    // S-21.
    pub(crate) unsettled: bool,
    /// True if a release was sent before, so that "not the owner" may be the effect of that one.
    pub(crate) repeated: bool,
    /// The label of its holder, for the log.
    pub(crate) label: Label,
    /// Counts the outcome, if a task held it.
    pub(crate) meter: Option<Meter>,
    /// Called with the store's answer, to free the seat.
    pub(crate) after: Option<AfterRelease>,
}

/// The queue to the client's task.
pub(crate) struct Releaser {
    clock: Clock,
    timeout: Duration,
    // Jobs are dropped, and their `after` called, after the unlock: both come back here.
    queue: Mutex<Queue>,
    /// Wakes the client's task.
    wake: Arc<Notify>,
    /// Jobs queued or under way, and releases whose callers wait for the answer.
    pub(crate) unfinished: UnderWay,
    /// Other jobs of the client that are queued or under way.
    others: UnderWay,
    /// Notified whenever a job has had its first answer.
    answered: Notify,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<ReleaseJob>,
    others: Vec<Box<dyn ClientJob>>,
    /// The numbers of jobs without an answer, by the name of each of their locks, the oldest first.
    unanswered: HashMap<LockKey, VecDeque<u64>>,
    next_number: u64,
    closed: bool,
    /// How many pending releases were logged since a task last ran.
    reported: usize,
}

impl Queue {
    /// True if a job with a number below `next`, which has had no answer, releases one of these names.
    fn releases(&self, target: &Target, next: u64) -> bool {
        let oldest = |lock: &Target| self.unanswered.get(lock.key())?.front().copied();
        !self.unanswered.is_empty() && target.locks().filter_map(oldest).any(|number| number < next)
    }

    fn pending_to_report(&mut self) -> Option<usize> {
        let pending = self.jobs.len();
        let is_news = pending > 0 && pending >= 2 * self.reported;
        is_news.then(|| {
            self.reported = pending;
            pending
        })
    }
}

impl Releaser {
    pub(crate) fn new(clock: Clock, timeout: Duration, wake: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            timeout,
            queue: Mutex::default(),
            wake,
            unfinished: UnderWay::default(),
            others: UnderWay::default(),
            answered: Notify::new(),
        })
    }

    /// Accepts a hold. Never blocks, whatever the store does.
    pub(crate) fn give(self: &Arc<Self>, mut job: ReleaseJob) {
        // Before it is queued: a shutdown that finds no holds waits for it, whether or not a task has it yet.
        self.unfinished.begin();
        {
            let mut queue = self.queue.lock();
            let number = queue.next_number;
            queue.next_number += 1;
            let target = Arc::clone(&job.target);
            for lock in target.locks() {
                queue.unanswered.entry(lock.key().clone()).or_default().push_back(number);
            }
            let unanswered = Unanswered { releaser: Arc::downgrade(self), target, number };
            let after = job.after.take();
            job.after = Some(Box::new(move |reply| {
                if let Some(after) = after {
                    after(reply);
                }
                drop(unanswered);
            }));
            queue.jobs.push_back(job);
        }
        self.wake.notify_one();
    }

    /// Accepts another job.
    pub(crate) fn give_job(&self, job: Box<dyn ClientJob>) {
        // A keeper counts it as work from here on, and starts a task if none comes for it.
        self.others.begin();
        self.queue.lock().others.push(job);
        self.wake.notify_one();
    }

    /// Waits until the store has answered the releases of these names that were queued before this call, not
    /// later ones. Without it, a task that drops a guard and asks at once would find the lock held by its own
    /// process, where no queue prevents that.
    pub(crate) fn answered(&self, target: &Target) -> impl Future<Output = ()> {
        // A release of the same name that is queued after this line has a later number, and is not waited for.
        let next = self.queue.lock().next_number;
        super::wait_until(&self.answered, move || !self.queue.lock().releases(target, next))
    }

    /// True if the store has not answered a release of one of these names yet.
    pub(crate) fn is_releasing(&self, target: &Target) -> bool {
        self.queue.lock().releases(target, u64::MAX)
    }

    /// Counts a release that its caller performs, until the returned value is dropped.
    pub(crate) fn elsewhere(self: &Arc<Self>) -> Elsewhere {
        self.unfinished.begin();
        Elsewhere(Arc::clone(self))
    }

    /// Makes the task end once nothing is left to release.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.wake.notify_one();
    }

    /// True if something is queued, under way, or waited for.
    pub(super) fn has_work(&self) -> bool {
        self.unfinished.count() > 0 || self.others.count() > 0
    }

    /// True once the client has ended, and nothing is queued.
    pub(super) fn is_done(&self) -> bool {
        let queue = self.queue.lock();
        queue.closed && queue.jobs.is_empty() && queue.others.is_empty()
    }

    /// A task begins: what is pending when it ends is news.
    pub(super) fn begin_reports(&self) {
        self.queue.lock().reported = 0;
    }

    /// Logs how many releases are pending while no task runs. Logs again only once they have doubled: a runtime
    /// that ends drops one guard after the other.
    pub(crate) fn report_pending(&self) {
        let pending = self.queue.lock().pending_to_report();
        if let Some(pending) = pending {
            tracing::warn!(
                pending,
                "the runtime ended before the store had answered these releases: their locks may \
                 stay held until their leases end; await `LockClient::shutdown` before the end"
            );
        }
    }

    /// Begins all that was given since the last call.
    // No await in it: a task that is dropped has begun all that it has taken out.
    pub(super) fn begin_jobs(self: &Arc<Self>, store: &Arc<dyn Store>, begun: &Begun) {
        let (jobs, others) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.jobs), std::mem::take(&mut queue.others))
        };
        for job in jobs {
            begun.push(Arc::clone(self).work(Arc::clone(store), job).boxed());
        }
        // After the releases, which may be of the same locks: those arrived first.
        for job in others {
            let counted = Counted(Arc::clone(self));
            if let Some(future) = job.start() {
                begun.push(Box::pin(async move {
                    let _counted = counted;
                    future.await;
                }));
            }
        }
    }

    /// Releases one hold. A job that is dropped before its first poll goes back into the queue, too.
    fn work(
        self: Arc<Self>,
        store: Arc<dyn Store>,
        job: ReleaseJob,
    ) -> impl Future<Output = ()> + Send {
        let work = Work { releaser: Arc::clone(&self), job: Some(job) };
        async move { self.repeat(store, work).await }
    }

    async fn repeat(&self, store: Arc<dyn Store>, mut work: Work) {
        let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        while let Some(job) = &mut work.job {
            let (target, owner) = (Arc::clone(&job.target), job.owner.clone());
            let request = ReleaseRequest::new(target, owner, self.timeout)
                .with_keep(keep(job.keep_until, &self.clock))
                .with_lasts(job.until.since(self.clock.now()));
            // Before the request: it may have its effect, and no answer.
            let repeated = std::mem::replace(&mut job.repeated, true);
            // Meanwhile callers of this process queue behind the seat in `after`, if there is one.
            let reply = store.release(request).await;
            // Also after a failure: the next waiter asks from here on, and finds the lock held until a later attempt frees it.
            if let Some(after) = job.after.take() {
                after(reply.as_ref().ok().copied());
            }
            if let Ok(reply) = &reply
                && let Some(meter) = job.meter.take()
            {
                meter.answered(*reply, repeated);
            }
            match reply {
                Ok(_) if job.unsettled => {
                    // The request that acquires this hold may still be under way on another connection.
                    // A hold that it makes until then has this owner, which the second release ends; no other task has that.
                    job.unsettled = false;
                    tokio::time::sleep(self.timeout).await;
                    continue;
                }
                Ok(_) => return work.done(),
                Err(error) => log_lock!(
                    debug, job.target.key(), job.label, %error, "release failed, trying again"
                ),
            }
            // The lease has ended in the store by itself, whatever the attempts have done.
            if self.clock.now() >= job.until {
                let key = job.target.key();
                match &job.meter {
                    Some(meter) => {
                        log_lock!(warn, key, job.label, "release given up, its lease is over");
                        meter.released(ReleaseOutcome::Failed);
                    }
                    // No task held it.
                    None => log_lock!(debug, key, job.label, "release given up, its lease is over"),
                }
                return work.done();
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

/// Returns for how long the store should keep a hold that is released now.
pub(crate) fn keep(until: Option<Tick>, clock: &Clock) -> Duration {
    until.map_or(Duration::ZERO, |until| until.since(clock.now()))
}

/// A release without a job: its caller waits for the answer.
pub(crate) struct Elsewhere(Arc<Releaser>);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.0.unfinished.end();
    }
}

/// Counts a job besides releases, from when a task has taken it.
struct Counted(Arc<Releaser>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.others.end();
    }
}

/// A job that has had no answer yet.
struct Unanswered {
    releaser: Weak<Releaser>,
    target: Arc<Target>,
    number: u64,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some(releaser) = self.releaser.upgrade() else { return };
        let mut queue = releaser.queue.lock();
        for lock in self.target.locks() {
            if let Some(numbers) = queue.unanswered.get_mut(lock.key()) {
                numbers.retain(|number| *number != self.number);
                if numbers.is_empty() {
                    queue.unanswered.remove(lock.key());
                }
            }
        }
        drop(queue);
        // A caller of `answered` has registered, and looks at the queue again.
        releaser.answered.notify_waiters();
    }
}

/// A job under way. If its runtime or a later task drops it, it goes back into the queue for the next task.
struct Work {
    releaser: Arc<Releaser>,
    job: Option<ReleaseJob>,
}

impl Work {
    fn done(&mut self) {
        self.job = None;
        self.releaser.unfinished.end();
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            // Behind jobs that came later, which matters to none: each names an owner of its own. A task that runs takes it at
            // once.
            self.releaser.queue.lock().jobs.push_back(job);
            self.releaser.wake.notify_one();
        }
    }
}
