//! Several locks of different kinds or clients, acquired in turn.
//!
//! An acquire waits for one lock at a time, and holds none of them meanwhile. Once it has that one, it tries the others without
//! waiting. If one is refused, all are released, and the refused one is what it waits for next. So no two acquires wait for each
//! other, in whatever order they name the locks. Each lock is queued for, held, renewed and released as any other of its client.
// S-28.

use std::iter::once;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all, try_join_all};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::enclosing::{Enclosing, enclosing};
use super::request::Request;
use super::{AcquireSpec, Part, Spec, Taken, prepare};
use crate::error::{LockError, StoreError};
use crate::guard::LockGuard;
use crate::liveness::{self, ASLEEP_AFTER, SIGN_OF_LIFE};
use crate::observe::{AcquireOutcome, Label, Meter};
use crate::options::{LockOptions, Wait};
use crate::store::{HoldKind, OwnerId, Target, holds_any};

type Guards = Vec<(AcquireOutcome, LockGuard)>;

/// What an acquire has so far.
// S-34. Apart from its future: if that is not polled for a second, a task of the client releases what is here.
struct Kept {
    /// `None` once it was released so.
    guards: Option<Guards>,
    polled_at: Instant,
}

/// Checks what is held around the caller, and prepares the client of each part.
pub(super) fn start(whole: &AcquireSpec, parts: &[Part], label: &Label) -> Result<(), LockError> {
    let (mut around, mut is_in_the_way) = (Vec::new(), false);
    for Part { engine, target, .. } in parts {
        match enclosing(engine, target) {
            Enclosing::Nothing => {}
            Enclosing::Same(held) => around.push((target.kind(), held.owned.token)),
            Enclosing::Writer(_) | Enclosing::InTheWay(_) => is_in_the_way = true,
        }
    }
    // A read hold has a token of its own, since other guards share it.
    let mut tokens = around.iter().filter(|(kind, _)| *kind != HoldKind::Read);
    let first = tokens.next();
    let is_one_guard = tokens.all(|other| first.is_some_and(|first| first.1 == other.1));
    let is_inside = around.len() == parts.len() && is_one_guard;
    if is_in_the_way || !(around.is_empty() || is_inside) {
        let detail = "some of its locks are held around it; take them all together";
        return Err(LockError::WouldDeadlock { key: whole.target.key().to_string(), detail });
    }
    for Part { engine, target, .. } in parts {
        prepare(engine, target, &whole.options, label, !is_inside)?;
    }
    Ok(())
}

/// True if the acquire goes on after a part was refused that it only tried. It waits for that part next, which tells whether a
/// failure of the store lasts.
fn may_pass(error: &LockError) -> bool {
    match error {
        LockError::Busy { .. } | LockError::NotReplicated { .. } => true,
        LockError::Store(error) => error.kind().is_transient(),
        _ => false,
    }
}

impl Request {
    /// Acquires all parts. If it is dropped, so are the guards that it has, which releases them.
    pub(super) fn acquire_in_turn(
        self: Arc<Self>,
        parts: Arc<[Part]>,
    ) -> BoxFuture<'static, Taken> {
        Box::pin(async move {
            let (mut first, mut is_first_round) = (0, true);
            loop {
                let now = Instant::now();
                let kept = Kept { guards: Some(Vec::with_capacity(parts.len())), polled_at: now };
                let kept = Arc::new(Mutex::new(kept));
                let lives = |now| {
                    let mut kept = kept.lock();
                    kept.polled_at = now;
                    kept.guards.is_some()
                };
                let round = pin!(self.round(&parts, first, &kept));
                let round = liveness::drive(now + SIGN_OF_LIFE, SIGN_OF_LIFE, lives, round).await;
                let taken = kept.lock().guards.take();
                // Without them it was not polled, and begins again.
                let (Some(ended), Some(taken)) = (round, taken) else { continue };
                let Err((at, error)) = ended else { return Ok(self.unite(taken)) };
                let waited = at == first || self.spec.options.get_wait() == Wait::None;
                self.give_back(taken).await;
                if waited || !may_pass(&error) {
                    return Err(error);
                }
                self.waits();
                first = at;
                if !std::mem::take(&mut is_first_round) {
                    // Another acquire may do the same in step with this one, and refuse it each time.
                    let pause = Instant::now() + Duration::from_millis(fastrand::u64(1..20));
                    sleep_until(self.limit().map_or(pause, |limit| limit.min(pause))).await;
                }
            }
        })
    }

    /// Waits for the first part, and then tries the others.
    ///
    /// # Errors
    ///
    /// The number of the part that is refused, and why.
    async fn round(
        self: &Arc<Self>,
        parts: &[Part],
        first: usize,
        kept: &Arc<Mutex<Kept>>,
    ) -> Result<(), (usize, LockError)> {
        let mut _ended = None;
        for at in once(first).chain((0..parts.len()).filter(|at| *at != first)) {
            let taken = self.acquire_part(&parts[at], at == first, kept).await;
            let taken = taken.map_err(|error| (at, error))?;
            if let Some(guards) = &mut kept.lock().guards {
                guards.push(taken);
            }
            if at == first {
                let (sender, ended) = oneshot::channel();
                _ended = Some(sender);
                let job: BoxFuture<'static, ()> =
                    Box::pin(release_if_asleep(Arc::downgrade(kept), ended));
                self.spec.engine.leases.give_job(Box::new(job));
            }
        }
        // As if another part had failed: the acquire waits for that next, for as long as its patience lasts.
        let other = usize::from(first == 0);
        raise_tokens(kept).await.map_err(|error| (other, error.into()))
    }

    /// Waits for a part if it `is_first`, and else tries it.
    async fn acquire_part(
        self: &Arc<Self>,
        part: &Part,
        is_first: bool,
        kept: &Mutex<Kept>,
    ) -> Taken {
        let leases = &part.engine.leases;
        let named = held_by_others(kept, part);
        // A store that fails now is asked for the lock next, and then reported.
        if !named.is_empty()
            && let Ok(true) = holds_any(&*leases.store, named, leases.timing.command_timeout).await
        {
            return Err(self.would_deadlock(
                "two of its clients have the same server, and it names a lock through both; name \
                 the lock through one of them",
            ));
        }
        let now = Instant::now();
        let wait = match (self.spec.options.get_wait(), self.limit()) {
            (Wait::UpTo(_), Some(limit)) if is_first => {
                Wait::UpTo(limit.saturating_duration_since(now))
            }
            (wait, _) if is_first => wait,
            _ => Wait::None,
        };
        let options = Arc::new(LockOptions::clone(&self.spec.options).wait(wait));
        let target = match options.replicas {
            None => Arc::clone(&part.target),
            replicas => Arc::new(part.target.with_replicas(replicas)),
        };
        let spec = Spec::Once(AcquireSpec { engine: Arc::clone(&part.engine), target, options });
        let request = Arc::new(self.part(spec, part.permits, now));
        request.acquire_to_end(false).await.map_err(|error| match error {
            LockError::Timeout { key, holder_remaining, local_holder, .. } => {
                let waited = self.started.elapsed();
                LockError::Timeout { key, waited, holder_remaining, local_holder }
            }
            other => other,
        })
    }

    /// Makes one guard of all.
    fn unite(&self, taken: Guards) -> (AcquireOutcome, LockGuard) {
        let (how, mut guards): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        let is_same = how.windows(2).all(|two| two[0] == two[1]);
        let how = how.first().copied().filter(|_| is_same).unwrap_or(AcquireOutcome::Acquired);
        let highest = guards.iter().map(LockGuard::token).max();
        let at_least = self.spec.options.at_least;
        for guard in &mut guards {
            if let Some(highest) = highest {
                guard.owned.raise_token(highest);
            }
            if let Some(at_least) = at_least {
                guard.owned.keep_for(at_least);
            }
        }
        let meter = Meter::new(self.label.clone(), HoldKind::Multi);
        (how, LockGuard::of_parts(guards, Arc::clone(&self.spec.target), meter))
    }

    /// Releases what was acquired, the last first, so that another acquire in the same order finds all free once it has the first.
    /// The releaser does what takes longer.
    async fn give_back(&self, taken: Guards) {
        let released = taken.into_iter().rev().map(|(_, guard)| guard.release());
        let most = self.spec.engine.leases.timing.command_timeout;
        let _ = timeout(most, join_all(released)).await;
    }
}

/// Releases what an acquire has so far once its future was not polled for a second, until it has `ended`.
// S-34.
async fn release_if_asleep(kept: Weak<Mutex<Kept>>, mut ended: oneshot::Receiver<()>) {
    let mut next = Instant::now() + ASLEEP_AFTER;
    while timeout_at(next, &mut ended).await.is_err() {
        let Some(kept) = kept.upgrade() else { return };
        let mut kept = kept.lock();
        next = kept.polled_at + ASLEEP_AFTER;
        if Instant::now() >= next {
            let released = kept.guards.take();
            drop(kept);
            return drop(released);
        }
    }
}

/// The locks of the part that were taken through other clients. If one of those has the same store, the call names a lock twice.
/// Only the store can tell: it may have several addresses, and a client a database of its own.
fn held_by_others(kept: &Mutex<Kept>, part: &Part) -> Vec<(Arc<Target>, OwnerId)> {
    let kept = kept.lock();
    let guards = kept.guards.iter().flatten().map(|(_, guard)| guard);
    let others = guards.filter(|guard| guard.owned.leases.id != part.engine.leases.id);
    let holds = others.map(|guard| guard.hold());
    let named = holds.flat_map(|hold| {
        let is_its = |lock: &&Target| part.target.locks().any(|its| its.key() == lock.key());
        // Whether replicas know of it does not matter here.
        let owned = |lock: &Target| (Arc::new(lock.with_replicas(None)), hold.owner.clone());
        hold.target.locks().filter(is_its).map(owned)
    });
    named.collect()
}

/// Has each store mint later tokens above the highest of these holds, which is the token of all.
// S-23.
async fn raise_tokens(kept: &Mutex<Kept>) -> Result<(), StoreError> {
    let mut raised = Vec::new();
    {
        let kept = kept.lock();
        let taken = || kept.guards.iter().flatten();
        let highest = taken().map(|(_, guard)| guard.token()).max();
        let highest = highest.filter(|_| taken().any(|(how, _)| *how != AcquireOutcome::Reentered));
        for (_, guard) in taken() {
            let Some(highest) = highest.filter(|highest| guard.token() < *highest) else {
                continue;
            };
            let target = &guard.hold().target;
            let locks = match target.members() {
                [] => std::slice::from_ref(target),
                locks => locks,
            };
            raised.extend(locks.iter().cloned().map(|lock| {
                let leases = Arc::clone(&guard.owned.leases);
                async move {
                    leases.store.raise_token(&lock, highest, leases.timing.command_timeout).await
                }
            }));
        }
    }
    try_join_all(raised).await.map(drop)
}
