//! [`Request`]: what one acquire asks for, wherever it is asked: in the caller's future, or in a task of the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::attempt::{Attempt, known_as};
use super::contend::{Contended, Contender};
use super::{AcquireSpec, Engine, Spec};
use crate::admin::waits::{Asker, WaitEntry};
use crate::clock::Tick;
use crate::error::{BusyReason, LocalHolder, LockError, StoreError, StoreErrorKind, rounded};
use crate::guard::LockGuard;
use crate::lease::Hold;
use crate::lease::reentries::ReentryGuard;
use crate::liveness::SIGN_OF_LIFE;
use crate::observe::{AcquireSpan, Label, Meter, NO_POLICY};
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::queue::{Asked, Asking, Caller, Seat, Terms, WaitsFor, Wanted};
use crate::store::{HoldKind, HoldNumber, OwnerId, Target};

/// What one acquire asks for.
pub(super) struct Request {
    pub(super) spec: Spec,
    pub(super) permits: u32,
    pub(super) label: Label,
    pub(super) started: Instant,
    /// Who asks, for people who look in.
    asker: Asker,
    /// Its place inside of the write hold around it, if it acquires the read side. Waiting there does not keep the write hold
    /// alive: once that has ended, the read waits as any other.
    pub(super) inside: Option<Arc<ReentryGuard>>,
    /// True once it waits for another task, or the store has refused it.
    // Relaxed: for the record of the wait, which may begin one poll later.
    waits: AtomicBool,
    /// For a read inside of a write hold, and for one of several locks, the request of the same acquire that its caller looks at.
    outer: Option<Arc<Self>>,
    /// True for one of several locks that are acquired in turn.
    is_part: bool,
    /// When the holder's lease ends, by the store's last answer to this request.
    // The task that asks writes it, and the caller reads it for an error or a log line. No other mutex is taken under it.
    holder_ends: Mutex<Option<Instant>>,
    /// The acquire's, for what a task of the client does for it.
    span: AcquireSpan,
}

impl Request {
    /// Called where the caller polls.
    pub(super) fn new(
        spec: Spec,
        permits: u32,
        label: Label,
        started: Instant,
        span: AcquireSpan,
    ) -> Self {
        let asker = Asker { site: label.call_site(), around: crate::scope::surroundings() };
        let (inside, outer, waits, holder_ends) =
            (None, None, AtomicBool::new(false), Mutex::default());
        Self {
            spec,
            permits,
            label,
            started,
            asker,
            inside,
            waits,
            outer,
            is_part: false,
            holder_ends,
            span,
        }
    }

    /// The same, inside of a write hold.
    pub(super) fn within(self: &Arc<Self>, inside: Arc<ReentryGuard>) -> Self {
        Self { inside: Some(inside), ..self.inner(self.spec.clone(), self.permits, self.started) }
    }

    /// A request that this acquire makes as a part of its own.
    pub(super) fn inner(self: &Arc<Self>, spec: Spec, permits: u32, started: Instant) -> Self {
        Self {
            spec,
            permits,
            label: self.label.clone(),
            started,
            asker: self.asker.clone(),
            inside: None,
            waits: AtomicBool::new(false),
            outer: Some(Arc::clone(self)),
            is_part: false,
            holder_ends: Mutex::default(),
            span: self.span.clone(),
        }
    }

    /// The same for one of several locks. What it acquires may be given back before the others are there, so `at_least` does not
    /// keep it: that is for the guard of all.
    // S-28.
    pub(super) fn part(self: &Arc<Self>, spec: Spec, permits: u32, started: Instant) -> Self {
        Self { is_part: true, ..self.inner(spec, permits, started) }
    }

    /// Boxes what a task of the client does for it.
    pub(super) fn boxed(
        &self,
        serving: impl Future<Output = ()> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        self.span.boxed(serving)
    }

    /// Records the holder's lease as the store reported it.
    pub(super) fn note_holder(&self, remaining: Option<Duration>) {
        let ends = remaining.and_then(|remaining| Instant::now().checked_add(remaining));
        *self.holder_ends.lock() = ends;
        if let Some(outer) = &self.outer {
            outer.note_holder(remaining);
        }
    }

    /// What is left of the holder's lease, by the store's last answer to this request or to another one of this process.
    pub(super) fn holder_remaining(&self) -> Option<Duration> {
        let own = *self.holder_ends.lock();
        let left = |ends: Instant| ends.saturating_duration_since(Instant::now());
        let queues = &self.spec.engine.queues;
        own.map(left).or_else(|| queues.holder_remaining(&self.spec.target))
    }

    /// Records that it waits.
    pub(super) fn waits(&self) {
        self.waits.store(true, Ordering::Relaxed);
        if let Some(outer) = &self.outer {
            outer.waits();
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    pub(super) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    pub(super) fn next_owner(&self) -> OwnerId {
        self.spec.engine.leases.next_owner(self.permits)
    }

    /// This wait, as one for the store.
    pub(super) fn as_wait(&self) -> WaitEntry {
        let (target, asker) = (Arc::clone(&self.spec.target), self.asker.clone());
        WaitEntry { target, since: self.started, asker, place: None }
    }

    /// When its wait ends.
    pub(super) fn limit(&self) -> Option<Instant> {
        match self.spec.options.get_wait() {
            // Only behind a release that is under way: for as long as that may take.
            Wait::None => Some(self.started + self.spec.engine.leases.timing.command_timeout * 2),
            Wait::UpTo(wait) => self.started.checked_add(wait),
            Wait::Forever => None,
        }
    }

    /// How often a waiter checks that the client's task runs: often enough for the renewals of leases like its own.
    pub(super) fn look_every(&self) -> Duration {
        SIGN_OF_LIFE.min(self.spec.options.get_lease().duration() / 3)
    }

    /// This caller at the queue.
    pub(super) fn caller(&self, place: Option<u64>, now: Instant) -> Caller {
        let AcquireSpec { target, options, .. } = &*self.spec;
        let waits_for = match (options.get_wait() != Wait::None, self.label.is_enforced()) {
            (true, _) => WaitsFor::Turn,
            (false, true) => WaitsFor::Release,
            (false, false) => WaitsFor::Answer,
        };
        Caller {
            terms: self.terms_of_hold(),
            max_queue: options.get_max_waiters(),
            waits_for,
            place,
            // Each waiter of a latch would ask for itself.
            asks_first: target.kind() != HoldKind::Latch,
            now,
        }
    }

    /// What a hold must be like that another task hands to this one.
    pub(super) fn terms_of_hold(&self) -> Terms {
        // A hold that is handed on keeps the store's lease of the hold before.
        let lease = self.spec.options.stored_lease();
        let replicas = self.spec.target.replicas().map_or(0, |replicas| replicas.acks);
        Terms { lease, replicas, permits: self.permits }
    }

    /// True if its queue is in the store, for all processes: a local one would be a second one, of which only the first
    /// waiter would have a place there.
    // S-26, S-27.
    pub(super) fn queues_in_store(&self) -> bool {
        match self.spec.target.kind() {
            HoldKind::Fair => true,
            HoldKind::Read => !self.shares(),
            _ => false,
        }
    }

    /// True if it asks the store whatever other tasks of this process do.
    pub(super) fn asks_apart(&self) -> bool {
        let may_wait = self.spec.options.get_wait() != Wait::None;
        let target = &self.spec.target;
        // Inside of a write hold, the tasks in the queue wait for that hold, which is this caller's. And whether another task
        // of this process waits says nothing about a permit: that one may want more of them.
        self.is_inside() || !may_wait && target.is_shared() && target.kind() != HoldKind::Read
    }

    /// True if this failure ends the acquire.
    // S-33: another error comes again, and a failure says nothing of the lock, so it never ends as "busy".
    pub(super) fn gives_up_on(&self, error: &StoreError) -> bool {
        !error.kind().is_transient()
            || self.spec.options.get_wait() == Wait::None
            || self.started.elapsed() >= self.spec.engine.leases.timing.store_patience
    }

    /// Releases what an owner may have been granted whose caller was not polled.
    // S-34. The caller may be polled again at the same time, and release it, too: a second release of an owner id finds
    // nothing, or a grant that came between the two, and takes nothing from another owner.
    pub(super) fn release_owner(&self, asked: HoldNumber) {
        let owner = self.spec.engine.leases.owner(asked);
        self.leftover(&known_as(&self.spec.target, &owner), owner).release(true, None);
    }

    /// Returns a guard on an owned hold that was handed to it, unless it was lost on the way here.
    pub(super) fn guard_on_handed(&self, owned: Arc<OwnedHold>) -> Option<LockGuard> {
        // A loss after this check is the guard's to find, as any other.
        let now = owned.hold.check().ok()?;
        if owned.hold.arrives() {
            if owned.hold.deadline().since(now) < owned.hold.lease.duration() / 2 {
                // It may have waited for its new holder for long, and was not renewed meanwhile.
                owned.leases.watchdog.reconsider(&owned.hold);
            }
        } else if self.shares() {
            // Other readers have joined it on the way.
            owned.hold.count_in();
        }
        Some(self.guard_on(owned, now))
    }

    /// Returns a guard on the owned hold, which may be lost by now.
    pub(super) fn guard_on(&self, mut owned: Arc<OwnedHold>, now: Tick) -> LockGuard {
        if let Some(at_least) = self.spec.options.at_least
            && !self.is_part
            // Nothing else knows it before its guard does.
            && let Some(owned) = Arc::get_mut(&mut owned)
        {
            owned.keep_until = Some(now.after(at_least));
        }
        owned.hold.begin(Meter::new(self.label.clone(), self.spec.target.kind()), now);
        let until = self.spec.options.max_hold.map(|max_hold| now.after(max_hold));
        if owned.hold.set_renew_until(until) {
            // The previous holder had a limit, and the watchdog may have stopped renewing because of it.
            owned.leases.watchdog.reconsider(&owned.hold);
        }
        if self.shares() {
            let guard = LockGuard::first_of_many(owned, self.spec.options.get_on_lost());
            self.offer(&guard.owned);
            return guard;
        }
        LockGuard::outermost(owned, self.spec.options.get_on_lost())
    }

    /// Describes the holder, as far as this process knows it.
    pub(super) fn holder(&self) -> String {
        if self.spec.target.kind() == HoldKind::Latch {
            return "none: the latch is not counted down to zero".to_owned();
        }
        if let Some(LocalHolder { site, held_for }) = self.local_holder() {
            let site = site.as_deref().unwrap_or("unknown");
            return format!("this process, which acquired it {held_for:.1?} ago at {site}; {HINT}");
        }
        match self.holder_remaining() {
            Some(left) => {
                format!("another client, whose lease has {left:.1?} left unless it is renewed")
            }
            None => "another client, or unknown to this one".to_owned(),
        }
    }

    /// Describes the hold of this process that has the lock.
    pub(super) fn local_holder(&self) -> Option<LocalHolder> {
        let hold = self.hold_of_this_process()?;
        let site = hold.recorder.label().call_site().map(|site| site.to_string());
        Some(LocalHolder { site, held_for: hold.clock().now().since(hold.taken_at) })
    }

    /// Returns the hold of this process that has the lock as another kind, under the same policy: its kind was changed
    /// by a reload. Two kinds without a policy are a mistake in the code.
    pub(super) fn hold_of_earlier_kind(&self) -> Option<Arc<Hold>> {
        let policy = self.label.as_str();
        let is_earlier = |hold: &Arc<Hold>| {
            hold.recorder.label().as_str() == policy
                && hold.target.kind() != self.spec.target.kind()
        };
        self.hold_of_this_process().filter(|hold| self.has_policy() && is_earlier(hold))
    }

    /// True if the lock follows a policy, whose kind a reload may change.
    pub(super) fn has_policy(&self) -> bool {
        self.label.as_str() != NO_POLICY
    }

    /// Returns a hold of one of these locks by the client that is to acquire it.
    fn hold_of_this_process(&self) -> Option<Arc<Hold>> {
        let by = |engine: &Engine, target: &Target| {
            let is_wanted = |held: &Target| target.locks().any(|lock| lock.key() == held.key());
            // Does not declare a loss: that would wake tasks under the queue's mutex.
            let is_held = |hold: &Hold| !hold.is_released() && !hold.peek_remaining().is_zero();
            let watchdog = &engine.leases.watchdog;
            watchdog.find(|hold| hold.target.locks().any(is_wanted) && is_held(hold))
        };
        match self.spec.parts() {
            None => by(&self.spec.engine, &self.spec.target),
            Some(parts) => parts.iter().find_map(|part| by(&part.engine, &part.target)),
        }
    }
}

/// The usual fix for a wait for a lock that this process itself holds.
const HINT: &str = "a task that is spawned inside of a guard's `run` re-enters its lock only if it is \
                    wrapped in `scope::inherit`; a second `lock()` beside a plain guard, which nothing is \
                    run under, waits for that guard; two tasks that take two locks in opposite orders wait \
                    for each other";

/// How it fails.
impl Request {
    pub(super) fn not_replicated(&self, acked: u32) -> LockError {
        let replicas = self.spec.options.replicas;
        LockError::NotReplicated {
            key: self.spec.target.key().to_string(),
            acked: acked as usize,
            wanted: replicas.map_or(0, |replicas| replicas.acks) as usize,
            // The wait may have left them less than the options give them.
            timeout: replicas
                .map_or(Duration::ZERO, |replicas| replicas.timeout)
                .min(rounded(self.started.elapsed())),
        }
    }

    pub(super) fn busy(&self, reason: BusyReason, holder_remaining: Option<Duration>) -> LockError {
        LockError::Busy { key: self.spec.target.key().to_string(), reason, holder_remaining }
    }

    /// The error of a store that has not answered whether the lock is free.
    pub(super) fn unanswered(&self) -> LockError {
        let waited = rounded(self.started.elapsed());
        let message = format!("the store did not say in {waited:?} whether the lock is free");
        StoreError::new(StoreErrorKind::Unavailable, message).into()
    }

    /// The error of a wait that has ended although the store has answered. A lock is not called busy without such an answer.
    // S-33.
    pub(super) fn timed_out(&self, holder_remaining: Option<Duration>) -> LockError {
        if self.spec.options.get_wait() == Wait::None {
            // The lock may be free: the answer to this request, or to the release before it, is overdue.
            return self.unanswered();
        }
        LockError::Timeout {
            key: self.spec.target.key().to_string(),
            waited: self.started.elapsed(),
            holder_remaining,
            local_holder: self.local_holder().map(Box::new),
        }
    }

    pub(super) fn would_deadlock(&self, detail: &'static str) -> LockError {
        LockError::WouldDeadlock { key: self.spec.target.key().to_string(), detail }
    }
}

impl Wanted<OwnedHold> for Request {
    fn asker(&self) -> Asker {
        self.asker.clone()
    }

    fn have_asked(&self, asking: Asking<OwnedHold>) {
        self.spec.engine.leases.give_job(Box::new(asking));
    }

    fn run(
        self: Arc<Self>,
        asked: Asked<OwnedHold>,
        seat: Seat<OwnedHold>,
    ) -> BoxFuture<'static, ()> {
        let request = Arc::clone(&self);
        if self.spec.target.kind() == HoldKind::Latch {
            return request.boxed(self.watch_latch(asked, seat));
        }
        let attempt = Attempt::new(&self, seat);
        let contender = Contender::new(Arc::clone(&self), attempt);
        request.boxed(serve(asked, contender, None))
    }
}

/// Asks the store for a waiter until it has what it wants, or waits no more. The store may have `refused` it before, in its
/// caller's future.
pub(super) async fn serve(
    asked: Asked<OwnedHold>,
    mut contender: Contender,
    refused: Option<super::contend::Answered>,
) {
    let contended = tokio::select! {
        // In this order, so that a waiter that has left is found before another request is sent. At each await in `contend` it
        // may leave, be passed over by a waiter behind it, or be told of a shutdown: all three notify this branch.
        biased;
        // Dropping the contender undoes what it has begun.
        () = asked.stops_waiting() => return,
        contended = contender.contend(refused, Some(&asked)) => contended,
    };
    match contended {
        Ok(Contended::Taken { owned, seat, left, .. }) => {
            // It is renewed once the waiter has it. Before others learn of it: they join what is offered.
            owned.hold.departs();
            contender.request().offer(&owned);
            // Taken before the waiter has the hold, which it may end at once.
            let kept = Request::keep_for_queue(&owned, left.as_ref());
            // The waiter may have left since the grant: the hold then goes to another one, or is released.
            asked.hand(owned, seat);
            if let Some(left) = left {
                left.share_before(Instant::now(), &kept);
            }
            // A shutdown that counts no contender any more finds the hold: the watchdog has it since the grant.
            drop((kept, contender));
            // If this task ends here with its runtime, the waiters behind take back what is not used, or the lease ends.
            asked.is_taken().await;
        }
        Ok(Contended::ToShare) => asked.share(None),
        // It queues again when it is polled.
        Ok(Contended::PassedOver) => {}
        Err(error) => asked.fail(error),
    }
}
