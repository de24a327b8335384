//! One server of a quorum, and the requests to it, which outlast the futures of their callers.
//!
//! Requests of one owner take effect in the order in which they were made: each waits in the owner's queue for
//! the end of the one before, so that a release never overtakes the acquire that it undoes. Requests of
//! different owners do not wait for each other.
// S-21.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use super::tally::Vote;
use crate::backoff::Backoff;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{
    AcquireReply, AcquireRequest, OwnerId, ReleaseReply, ReleaseRequest, Store, Target,
};

/// The first and the longest pause between attempts to release.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a release is repeated at least at a server that does not answer, after the other servers have decided.
const KEEP_RELEASING: Duration = Duration::from_secs(30);

/// Requests of one owner that may wait for an earlier one. More acquires would be pointless.
const MAX_QUEUE: usize = 3;

pub(super) struct Server {
    pub(super) store: Arc<dyn Store>,
    /// How long each request may take.
    pub(super) timeout: Duration,
    restart_guard: Option<Duration>,
    /// True if the last request for a lock was not answered in time.
    silent: AtomicBool,
    /// True if its last error was permanent.
    refuses: AtomicBool,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    by_owner: HashMap<OwnerId, Queue>,
    requests: u64,
}

/// The end of one owner's queue.
struct Queue {
    last: u64,
    /// The number of the last release, for the requests ahead of it.
    last_release: watch::Sender<u64>,
    length: usize,
    end: oneshot::Receiver<()>,
}

/// The outcome of the acquire that this server votes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    Won,
    Lost,
}

/// A message from the task of one server.
pub(super) enum Answer {
    Voted(usize, Vote),
    /// The grant has been released, or the first attempt to release it failed.
    Undone,
}

impl Server {
    pub(super) fn new(
        store: Arc<dyn Store>,
        timeout: Duration,
        restart_guard: Option<Duration>,
    ) -> Arc<Self> {
        let (silent, refuses) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { store, timeout, restart_guard, silent, refuses, queues: Mutex::default() })
    }

    /// True if the server did not answer the last acquire.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// A place in the queue, behind the owner's earlier requests.
    pub(super) fn enqueue(self: &Arc<Self>, owner: &OwnerId, releases: bool) -> Turn {
        let mut queues = self.queues.lock();
        queues.requests += 1;
        let number = queues.requests;
        let (done, end) = oneshot::channel();
        let before = queues.by_owner.remove(owner);
        let length = before.as_ref().map_or(0, |queue| queue.length);
        let (before, last_release) = match before {
            Some(queue) => (Some(queue.end), queue.last_release),
            None => (None, watch::Sender::new(0)),
        };
        if releases {
            last_release.send_replace(number);
        }
        let releases = last_release.subscribe();
        let queue = Queue { last: number, last_release, length: length + 1, end };
        queues.by_owner.insert(owner.clone(), queue);
        let (server, owner) = (Arc::clone(self), owner.clone());
        Turn { server, owner, number, length, before, releases, _done: done }
    }

    /// Waits until no acquire or release is under way, or until the time.
    pub(super) async fn idle(&self, until: Instant) {
        while !self.queues.lock().by_owner.is_empty() && Instant::now() < until {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until nothing is under way here or in the store, or until the time.
    pub(super) async fn settled(&self, until: Instant) -> Result<(), StoreError> {
        self.idle(until).await;
        self.store.settled(until.duration_since(Instant::now())).await
    }

    /// Asks for the lock, and releases a grant that does not count.
    pub(super) async fn ask(
        self: Arc<Self>,
        mut turn: Turn,
        number: usize,
        request: AcquireRequest,
        mut verdict: watch::Receiver<Verdict>,
        answers: mpsc::UnboundedSender<Answer>,
    ) {
        let asked = Instant::now();
        if turn.length >= MAX_QUEUE {
            let message = "an earlier request to the server is still under way";
            let error = StoreError::new(StoreErrorKind::NotReady, message);
            let _ = answers.send(Answer::Voted(number, Vote::Failed(error)));
            // The next request in the queue must wait for the earlier ones too.
            return turn.come().await;
        }
        turn.come().await;
        let decided = *verdict.borrow();
        let is_wanted = match decided {
            // The caller is gone if there is no sender any more.
            Verdict::Open => verdict.has_changed().is_ok(),
            // The hold does without this server so far, and would end with the next server that fails.
            Verdict::Won => !turn.is_superseded() && asked.elapsed() < request.lease,
            Verdict::Lost => false,
        };
        if !is_wanted {
            return;
        }
        let (vote, effect) = self.vote(number, &request).await;
        let granted = matches!(vote, Vote::Granted(_));
        let _ = answers.send(Answer::Voted(number, vote));
        let undo = match effect {
            Effect::None => false,
            Effect::Taken if !granted => true,
            // If the caller is gone, it has queued a release behind this request (S-21).
            Effect::Taken | Effect::Unknown => tokio::select! {
                biased;
                verdict = verdict.wait_for(|verdict| *verdict != Verdict::Open) => {
                    verdict.is_ok_and(|verdict| *verdict == Verdict::Lost)
                }
                // The future that counts the votes is not polled, and a release waits behind this request (S-34).
                () = turn.superseded() => false,
            },
        };
        if undo {
            let answers = granted.then_some(answers);
            self.undo(&turn, &request, effect == Effect::Unknown, answers).await;
        }
    }

    async fn vote(&self, number: usize, request: &AcquireRequest) -> (Vote, Effect) {
        let request = AcquireRequest { timeout: self.timeout, ..request.clone() };
        let answer = self.store.acquire(request).await;
        let kind = answer.as_ref().err().map(StoreError::kind);
        let silent =
            matches!(kind, Some(StoreErrorKind::Unavailable | StoreErrorKind::OutcomeUnknown));
        self.silent.store(silent, Ordering::Relaxed);
        self.note_refusal(number, answer.as_ref().err());
        match answer {
            Ok(AcquireReply::Granted(token)) => match self.check_age().await {
                Ok(()) => (Vote::Granted(token), Effect::Taken),
                Err(error) => (Vote::Failed(error), Effect::Taken),
            },
            Ok(
                AcquireReply::Held(left)
                | AcquireReply::Behind(left)
                | AcquireReply::BehindRedisson { left, .. },
            ) => (Vote::Held(left), Effect::None),
            Ok(AcquireReply::Split) => (Vote::Held(None), Effect::None),
            Ok(AcquireReply::NotReplicated { .. }) => {
                let message = "too few replicas of a server acknowledged the lock";
                let error = StoreError::new(StoreErrorKind::NotReady, message);
                (Vote::Failed(error), Effect::Taken)
            }
            Err(error) => {
                let may_have_run = error.kind().may_have_run();
                let effect = if may_have_run { Effect::Unknown } else { Effect::None };
                (Vote::Failed(error), effect)
            }
        }
    }

    /// Logs once that a server refuses: a majority goes on without it, so the caller gets no error.
    // S-33.
    fn note_refusal(&self, number: usize, error: Option<&StoreError>) {
        // A key of another type concerns one name; the caller gets that error.
        let refusal = error.filter(|error| {
            !error.kind().is_transient() && error.kind() != StoreErrorKind::WrongType
        });
        let known = self.refuses.swap(refusal.is_some(), Ordering::Relaxed);
        if let (Some(error), false) = (refusal, known) {
            let number = number + 1;
            tracing::warn!(%error, "server {number} of the quorum refuses locks and does not count");
        }
    }

    /// Refuses a server that may have lost locks in a restart. Asked after the grant: a server that restarts between the
    /// two loses the grant as well.
    // S-29.
    async fn check_age(&self) -> Result<(), StoreError> {
        let Some(guard) = self.restart_guard else { return Ok(()) };
        match self.store.age(self.timeout).await? {
            Some(age) if age < guard => Err(StoreError::new(
                StoreErrorKind::NotReady,
                format!("the server started {age:?} ago and counts only after {guard:?}"),
            )),
            _ => Ok(()),
        }
    }

    /// Releases until the server has answered or the lease is over; once more if the acquire may take effect late.
    // S-21.
    async fn undo(
        &self,
        turn: &Turn,
        request: &AcquireRequest,
        mut once_more: bool,
        mut undone: Option<mpsc::UnboundedSender<Answer>>,
    ) {
        let until = Instant::now() + request.lease;
        let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let target = Arc::clone(&request.target);
            let release = self.release(target, &request.owner, Duration::ZERO);
            let released = self.store.release(release).await;
            if let Some(undone) = undone.take() {
                let _ = undone.send(Answer::Undone);
            }
            match released {
                Ok(_) if !once_more => return,
                Ok(_) => {
                    once_more = false;
                    sleep(self.timeout).await;
                }
                Err(_) if Instant::now() >= until || turn.is_superseded() => return,
                Err(_) => sleep(backoff.pause()).await,
            }
        }
    }

    /// Releases a hold. Sends each answer that counts, and repeats failed attempts for a while.
    pub(super) async fn release_hold(
        self: Arc<Self>,
        mut turn: Turn,
        request: ReleaseRequest,
        answers: mpsc::UnboundedSender<Result<ReleaseReply, StoreError>>,
    ) {
        // Counted from now, not from the end of the queue or a pause.
        let asked_at = Instant::now();
        let ends_at = asked_at + request.keep;
        turn.come().await;
        // A server that has not answered may keep the hold for as long as it was ever asked for, `at_least` and
        // extensions included.
        let until = asked_at + request.lasts.max(KEEP_RELEASING);
        let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        let mut may_have_run = false;
        loop {
            let keep = ends_at.saturating_duration_since(Instant::now());
            let release = self.release(Arc::clone(&request.target), &request.owner, keep);
            let answer = self.store.release(release).await;
            let transient = answer.as_ref().is_err_and(|error| error.kind().is_transient());
            // After a lost reply, "not the owner" may mean that the lost attempt released it: no vote.
            if !(may_have_run && matches!(answer, Ok(ReleaseReply::NotOwner))) {
                may_have_run |= answer
                    .as_ref()
                    .is_err_and(|error| error.kind() == StoreErrorKind::OutcomeUnknown);
                let _ = answers.send(answer);
            }
            if !transient || Instant::now() >= until || turn.is_superseded() {
                return;
            }
            sleep(backoff.pause()).await;
        }
    }

    fn release(&self, target: Arc<Target>, owner: &OwnerId, keep: Duration) -> ReleaseRequest {
        ReleaseRequest::new(target, owner.clone(), self.timeout).with_keep(keep)
    }
}

/// Possible effects of an acquire at the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    None,
    Taken,
    Unknown,
}

/// A place in one owner's queue. Dropping it admits the next request.
pub(super) struct Turn {
    server: Arc<Server>,
    owner: OwnerId,
    number: u64,
    /// The number of requests ahead.
    length: usize,
    before: Option<oneshot::Receiver<()>>,
    /// The number of the last release in the queue.
    releases: watch::Receiver<u64>,
    /// The next request waits for its drop.
    _done: oneshot::Sender<()>,
}

impl Turn {
    async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            // Never sent, only dropped.
            let _ = before.await;
        }
    }

    /// True if a release waits behind this request, which undoes its effects.
    fn is_superseded(&self) -> bool {
        *self.releases.borrow() > self.number
    }

    /// Resolves once a release waits behind this request.
    async fn superseded(&mut self) {
        let number = self.number;
        if self.releases.wait_for(|last| *last > number).await.is_err() {
            // The queue is gone, and no release will come.
            std::future::pending().await
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.server.queues.lock();
        if let Some(queue) = queues.by_owner.get_mut(&self.owner) {
            queue.length -= 1;
            if queue.last == self.number {
                queues.by_owner.remove(&self.owner);
            }
        }
    }
}
