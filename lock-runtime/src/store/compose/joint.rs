//! Several locks of any kind, on any stores, as one.
//!
//! Nobody waits while holding: the parts are asked one after the other, and the first refusal gives
//! everything back. So there is no deadlock, whatever the order. Two who keep refusing each other are
//! parted by [`AcquireReply::Split`], which makes the loop pause at random; and who was refused asks
//! that part first the next time, so that a part which is held for long is waited for without
//! touching the others.
// S-28.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::{
    AcquireReply, AcquireRequest, CountRequest, HoldKind, JointPart, OnRenewed, OwnerId, Ownership,
    ReleaseReply, ReleaseRequest, RenewRequest, Store, StoreFuture, Subscription, Target,
    gather_renewals, renewed_in_parts,
};

/// How long to wait for a fair lock at a time: only those in its line are told of a release, and
/// nobody stands there for a lock of several.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How many targets are known by the part that refused them last.
const MOST_REFUSERS: usize = 1024;

/// One part on its store.
#[derive(Clone, Copy)]
struct Part<'a> {
    store: &'a Arc<dyn Store>,
    target: &'a Arc<Target>,
    permits: u32,
}

impl Part<'_> {
    fn owner(&self, owner: &OwnerId) -> OwnerId {
        owner.with_permits(self.permits)
    }

    async fn acquire(
        &self,
        request: &AcquireRequest,
        timeout: Duration,
    ) -> Result<AcquireReply, StoreError> {
        let request = AcquireRequest {
            target: self.target_like(&request.target),
            owner: self.owner(&request.owner),
            lease: request.lease,
            tokens: request.tokens,
            place: None,
            joins: false,
            timeout,
        };
        self.store.acquire(request).await
    }

    /// The part's target, with the replicas of the whole: where those are wanted, everything goes
    /// over another connection, in its order.
    fn target_like(&self, whole: &Target) -> Arc<Target> {
        match whole.replicas() {
            None => Arc::clone(self.target),
            replicas => Arc::new(self.target.with_replicas(replicas)),
        }
    }

    async fn release(
        &self,
        whole: &Target,
        owner: &OwnerId,
        keep: Duration,
        timeout: Duration,
    ) -> Result<ReleaseReply, StoreError> {
        let (target, owner) = (self.target_like(whole), self.owner(owner));
        self.store.release(ReleaseRequest { target, owner, keep, timeout }).await
    }

    /// Has later holds of this part get tokens above `token`.
    async fn raise_tokens(&self, token: FencingToken, timeout: Duration) -> Result<(), StoreError> {
        let alone = self.target.members().is_empty().then_some(self.target);
        let locks = alone.into_iter().chain(self.target.members());
        let raised = locks.map(|lock| self.store.raise_token(lock, token, timeout));
        try_join_all(raised).await.map(drop)
    }
}

/// See the module. Serves the locks made of several that are on these stores. The parts of each differ, and are
/// in an order that all processes share, which spares refusals.
pub(crate) struct JointStore {
    /// By the id of the client's lease manager.
    stores: BTreeMap<u64, Arc<dyn Store>>,
    /// The part to ask first, by the hash of the target: the last one that refused.
    refusers: Mutex<HashMap<u64, usize>>,
    clock: Clock,
}

impl JointStore {
    pub(crate) fn new(stores: BTreeMap<u64, Arc<dyn Store>>, clock: Clock) -> Self {
        Self { stores, refusers: Mutex::default(), clock }
    }

    /// The parts of a target, on their stores.
    fn parts<'a>(&'a self, target: &'a Target) -> Result<Vec<Part<'a>>, StoreError> {
        let part = |JointPart { home, target, permits }: &'a JointPart| {
            Some(Part { store: self.stores.get(home)?, target, permits: *permits })
        };
        let parts: Option<Vec<_>> = target.parts().iter().map(part).collect();
        parts.filter(|parts| !parts.is_empty()).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Config,
                "this store takes several locks of its own clients",
            )
        })
    }

    fn refusers(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.refusers.lock()
    }

    fn note_refuser(&self, target: &Target, part: usize) {
        let mut refusers = self.refusers();
        if refusers.len() >= MOST_REFUSERS {
            // Those of names that are not asked for any more are not worth their memory.
            refusers.clear();
        }
        refusers.insert(target.hashed(), part);
    }

    async fn take(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError> {
        let deadline = Instant::now() + request.timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
        let parts = self.parts(&request.target)?;
        let first = self.refusers().get(&request.target.hashed()).copied().unwrap_or(0);
        let mut order: Vec<_> = parts.iter().enumerate().collect();
        order.sort_by_key(|(number, _)| *number != first);
        let mut taken: Vec<(&Part<'_>, FencingToken)> = Vec::with_capacity(parts.len());
        for (number, part) in order {
            let answer = part.acquire(&request, left()).await;
            if let Ok(AcquireReply::Granted(token)) = answer {
                taken.push((part, token));
                continue;
            }
            if is_refused(&answer) {
                self.note_refuser(&request.target, number);
            }
            return self.undo(&request, &taken, Some((part, answer))).await;
        }
        let token = taken.iter().map(|(_, token)| *token).max().unwrap_or(FencingToken::new(0));
        let last = FencingToken::new(token.get() + u64::from(request.tokens.max(1)) - 1);
        let below = taken.iter().filter(|(_, its)| *its < token);
        match try_join_all(below.map(|(part, _)| part.raise_tokens(last, left()))).await {
            Ok(_) => Ok(AcquireReply::Granted(token)),
            Err(error) => {
                self.undo(&request, &taken, None).await?;
                Err(error)
            }
        }
    }

    /// Gives back what was taken, and whatever the last part's answer leaves open.
    async fn undo(
        &self,
        request: &AcquireRequest,
        taken: &[(&Part<'_>, FencingToken)],
        last: Option<(&Part<'_>, Result<AcquireReply, StoreError>)>,
    ) -> Result<AcquireReply, StoreError> {
        let open = last.as_ref().filter(|(_, answer)| !is_refused(answer));
        let parts = taken.iter().map(|(part, _)| *part).chain(open.map(|(part, _)| *part));
        let undone = parts.map(|part| {
            part.release(&request.target, &request.owner, Duration::ZERO, request.timeout)
        });
        let given_back = join_all(undone).await.into_iter().collect::<Result<Vec<_>, _>>();
        let unanswered = |source| {
            let message = "some of the locks could not be taken and others not be given back yet";
            StoreError::new(StoreErrorKind::OutcomeUnknown, message).with_source(source)
        };
        match last {
            // Whoever asked has all of it undone once more, whatever became of this.
            Some((_, Err(error))) if error.kind() == StoreErrorKind::OutcomeUnknown => Err(error),
            Some((_, Err(error))) if given_back.is_err() => Err(unanswered(error)),
            Some((_, Err(error))) => Err(error),
            Some((part, Ok(reply))) if is_refused(&Ok(reply)) => {
                given_back.map_err(unanswered)?;
                Ok(if taken.is_empty() { refused(part, reply) } else { AcquireReply::Split })
            }
            Some((_, Ok(other))) => given_back.map(|_| other).map_err(unanswered),
            None => given_back.map(|_| AcquireReply::Split).map_err(unanswered),
        }
    }

    /// Tells of each hold as soon as enough parts have answered: one that hangs hides nothing.
    async fn keep(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> Result<(), StoreError> {
        // For each store what it is asked, and for which of the holds.
        let mut by_store: BTreeMap<u64, (Vec<RenewRequest>, Vec<usize>)> = BTreeMap::new();
        let mut missing = Vec::with_capacity(requests.len());
        for (place, request) in requests.iter().enumerate() {
            let parts = self.parts(&request.target)?;
            missing.push(Some(parts.len()));
            for (JointPart { home, .. }, part) in request.target.parts().iter().zip(parts) {
                let (requests, places) = by_store.entry(*home).or_default();
                let (target, owner) =
                    (part.target_like(&request.target), part.owner(&request.owner));
                requests.push(RenewRequest { target, owner, lease: request.lease });
                places.push(place);
            }
        }
        let tally = Arc::new(Tally { missing: Mutex::new(missing), on_renewed });
        let asked = by_store.into_iter().filter_map(|(home, (requests, places))| {
            let (tally, places) = (Arc::clone(&tally), Arc::new(places));
            let (counted, of) = (Arc::clone(&tally), Arc::clone(&places));
            let on_renewed: OnRenewed = Arc::new(move |number: usize, answer| {
                of.get(number).into_iter().for_each(|place| counted.add(*place, answer));
            });
            let asked = self.stores.get(&home)?.renew_each(requests, timeout, on_renewed);
            Some(async move {
                let ended = asked.await;
                if ended.is_err() {
                    // They are asked for again soon, and not only when the slowest part has answered.
                    places.iter().for_each(|place| tally.add(*place, Ownership::Unknown));
                }
                ended
            })
        });
        renewed_in_parts(join_all(asked).await)
    }

    async fn free(&self, request: ReleaseRequest) -> Result<ReleaseReply, StoreError> {
        let ReleaseRequest { target, owner, keep, timeout } = &request;
        let parts = self.parts(target)?;
        let asked = parts.iter().map(|part| part.release(target, owner, *keep, *timeout));
        let answers = join_all(asked).await;
        let (mut all, mut told, mut failed) = (true, 0, None);
        for answer in answers {
            match answer {
                Ok(ReleaseReply::NotOwner) => all = false,
                Ok(ReleaseReply::Released { others }) => told = others.max(told),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            // One is known not to be ours any more, which no later answer may hide: it is asked again,
            // but not as something that may have run.
            Some(error) if error.kind().is_transient() && !all => Err(StoreError::new(
                StoreErrorKind::NotReady,
                "not all of the locks could be given back yet",
            )
            .with_source(error)),
            // The others are free already, so asking again will find them not ours.
            Some(error) if error.kind().is_transient() => Err(StoreError::new(
                StoreErrorKind::OutcomeUnknown,
                "not all of the locks could be given back yet",
            )
            .with_source(error)),
            Some(error) => Err(error),
            None if all => Ok(ReleaseReply::Released { others: told }),
            None => Ok(ReleaseReply::NotOwner),
        }
    }
}

/// What the parts have answered so far to renewals.
struct Tally {
    /// For each hold: how many parts have still to say that it is one, none once that cannot be.
    missing: Mutex<Vec<Option<usize>>>,
    on_renewed: OnRenewed,
}

impl Tally {
    fn add(&self, place: usize, answer: Ownership) {
        let told = {
            let mut missing = self.missing.lock();
            let Some(missing) = missing.get_mut(place) else { return };
            match (answer, missing.as_mut()) {
                (Ownership::Owner, Some(left)) => {
                    *left -= 1;
                    (*left == 0).then_some(Ownership::Owner)
                }
                // Without one part there is no hold, whatever is known of the others.
                (Ownership::NotOwner, _) => {
                    *missing = None;
                    Some(answer)
                }
                (Ownership::Unknown, Some(_)) => missing.take().map(|_| answer),
                (_, None) => None,
            }
        };
        if let Some(answer) = told {
            (self.on_renewed)(place, answer);
        }
    }
}

/// True for the answer that another owner has the lock or goes first: nothing was taken.
fn is_refused(answer: &Result<AcquireReply, StoreError>) -> bool {
    matches!(answer, Ok(AcquireReply::Held(_) | AcquireReply::Behind(_)))
}

/// The answer to all of it where the first part asked has given that one.
fn refused(part: &Part<'_>, reply: AcquireReply) -> AcquireReply {
    match reply {
        AcquireReply::Held(left) | AcquireReply::Behind(left)
            if part.target.kind() == HoldKind::Fair
                && left.is_none_or(|left| left > LOOK_AGAIN) =>
        {
            // Not how long the holder has it.
            AcquireReply::Behind(Some(LOOK_AGAIN))
        }
        reply => reply,
    }
}

impl Store for JointStore {
    fn ping(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let asked = join_all(self.stores.values().map(|store| store.ping(timeout))).await;
            asked.into_iter().collect()
        })
    }

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        Box::pin(self.take(request))
    }

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        Box::pin(gather_renewals(self, requests, timeout))
    }

    fn renew_each(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.keep(requests, timeout, on_renewed))
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        Box::pin(self.free(request))
    }

    fn show_counts(&self, requests: Vec<CountRequest>, timeout: Duration) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut by_store: BTreeMap<u64, Vec<CountRequest>> = BTreeMap::new();
            for request in &requests {
                for JointPart { home, target, .. } in request.target.parts() {
                    let request = CountRequest { target: Arc::clone(target), ..request.clone() };
                    by_store.entry(*home).or_default().push(request);
                }
            }
            let shown = by_store.into_iter().filter_map(|(home, requests)| {
                Some(self.stores.get(&home)?.show_counts(requests, timeout))
            });
            try_join_all(shown).await.map(drop)
        })
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        Box::pin(async move {
            let parts = self.parts(&target)?;
            let all = parts.iter().map(|part| part.store.subscribe(part.target, timeout));
            Ok(Subscription::any_of(try_join_all(all).await?))
        })
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

impl fmt::Debug for JointStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JointStore").field("stores", &self.stores.len()).finish_non_exhaustive()
    }
}
