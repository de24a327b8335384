//! Several locks of any kind, on any stores, as one.
//!
//! No contender waits while it holds a part: it asks for the parts one after the other, and the first refusal
//! releases all that it has. So there is no deadlock, whatever the order. After such a refusal the reply is
//! [`AcquireReply::Split`], which makes the contender pause at random, so that two contenders do not refuse
//! each other forever. At the next attempt it asks first for the part that was refused, so that it waits for a
//! part that is held for long without acquiring the others.
// S-28.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
#[cfg(feature = "redis")]
use crate::fence::RedisValue;
#[cfg(feature = "redis")]
use crate::store::CommandRequest;
use crate::store::unsent::SentBefore;
use crate::store::{
    AcquireReply, AcquireRequest, HoldKind, JointPart, OnRenewed, OwnerId, Ownership, ReleaseReply,
    ReleaseRequest, RenewRequest, Store, StoreFuture, Subscription, Target, holds_any,
    renewed_in_parts,
};

/// How long to wait for a fair lock at a time: a release notifies only its queue, which a joint lock does not enter.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The maximum number of targets whose last refuser is remembered.
const MOST_REFUSERS: usize = 1024;

/// One part on its store.
#[derive(Clone, Copy)]
struct Part<'a> {
    home: u64,
    store: &'a Arc<dyn Store>,
    target: &'a Arc<Target>,
    permits: u32,
}

impl Part<'_> {
    /// The part's target and owner. If the whole wants replicas, so does the part: then everything goes over one
    /// connection, in order.
    fn hold(&self, whole: &Target, owner: &OwnerId) -> (Arc<Target>, OwnerId) {
        let target = match whole.replicas() {
            None => Arc::clone(self.target),
            replicas => Arc::new(self.target.with_replicas(replicas)),
        };
        (target, owner.with_permits(self.permits))
    }

    fn acquire(&self, whole: &AcquireRequest, timeout: Duration) -> StoreFuture<'_, AcquireReply> {
        let (target, owner) = self.hold(&whole.target, &whole.owner);
        let request = AcquireRequest::new(target, owner, whole.lease, timeout);
        self.store.acquire(request.with_tokens(whole.tokens))
    }

    fn release(&self, whole: &ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        let (target, owner) = self.hold(&whole.target, &whole.owner);
        let request = ReleaseRequest::new(target, owner, whole.timeout);
        self.store.release(request.with_keep(whole.keep).with_lasts(whole.lasts))
    }

    fn locks(&self) -> &[Arc<Target>] {
        match self.target.members() {
            [] => std::slice::from_ref(self.target),
            members => members,
        }
    }

    /// Raises the counters of this part, so that its later holds get tokens above `token`.
    async fn raise_tokens(&self, token: FencingToken, timeout: Duration) -> Result<(), StoreError> {
        let raised = self.locks().iter().map(|lock| self.store.raise_token(lock, token, timeout));
        try_join_all(raised).await.map(drop)
    }

    /// True if one of the parts that `owner` was granted is a lock of this part as well: their clients have one store. Only
    /// the store can tell. It may have several addresses, and a client a database of its own.
    async fn was_granted(
        &self,
        owner: &OwnerId,
        taken: &[(&Self, FencingToken)],
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        let mut holds = Vec::new();
        // One client names no lock twice.
        for (other, _) in taken.iter().filter(|(other, _)| other.home != self.home) {
            let has_name =
                |lock: &&Arc<Target>| self.locks().iter().any(|its| its.key() == lock.key());
            let named = other.locks().iter().filter(has_name);
            // Whether replicas know of it does not matter here.
            holds.extend(named.map(|lock| {
                (Arc::new(lock.with_replicas(None)), owner.with_permits(other.permits))
            }));
        }
        Ok(!holds.is_empty() && holds_any(&**self.store, holds, timeout).await?)
    }
}

/// Combines the parts: see the module. The parts of a lock differ and are in an order that all processes share,
/// which reduces refusals.
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

    /// Returns the parts of a target, on their stores.
    fn parts<'a>(&'a self, target: &'a Target) -> Result<Vec<Part<'a>>, StoreError> {
        let part = |JointPart { home, target, permits }: &'a JointPart| {
            Some(Part { home: *home, store: self.stores.get(home)?, target, permits: *permits })
        };
        let parts: Option<Vec<_>> = target.parts().iter().map(part).collect();
        let message = "this store takes several locks of its own clients";
        let unknown = || StoreError::new(StoreErrorKind::Config, message);
        parts.filter(|parts| !parts.is_empty()).ok_or_else(unknown)
    }

    fn note_refuser(&self, target: &Target, part: usize) {
        let mut refusers = self.refusers.lock();
        if refusers.len() >= MOST_REFUSERS {
            // Most of them belong to names that are not used any more.
            refusers.clear();
        }
        refusers.insert(target.hashed(), part);
    }

    async fn acquire_all(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError> {
        let deadline = Instant::now() + request.timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
        let parts = self.parts(&request.target)?;
        let first = self.refusers.lock().get(&request.target.hashed()).copied().unwrap_or(0);
        let mut order: Vec<_> = parts.iter().enumerate().collect();
        order.sort_by_key(|(number, _)| *number != first);
        let mut taken: Vec<(&Part<'_>, FencingToken)> = Vec::with_capacity(parts.len());
        // The request for a later part says nothing about those that were acquired.
        let mut sent_before = None;
        for (number, part) in order {
            match part.was_granted(&request.owner, &taken, left()).await {
                Ok(false) => {}
                named_twice => {
                    self.undo(&request, &taken, None).await?;
                    return named_twice.map(|_| AcquireReply::NamedTwice);
                }
            }
            let answer = part.acquire(&request, left()).await;
            if let Ok(AcquireReply::Granted(token)) = answer {
                taken.push((part, token));
                sent_before.get_or_insert(SentBefore);
                continue;
            }
            if is_refused(&answer) {
                self.note_refuser(&request.target, number);
            }
            return self.undo(&request, &taken, Some((part, answer))).await;
        }
        let token = taken.iter().map(|(_, token)| *token).max().unwrap_or(FencingToken::new(0));
        let last = token.last_of(request.tokens);
        let below = taken.iter().filter(|(_, its)| *its < token);
        match try_join_all(below.map(|(part, _)| part.raise_tokens(last, left()))).await {
            Ok(_) => Ok(AcquireReply::Granted(token)),
            Err(error) => {
                self.undo(&request, &taken, None).await?;
                Err(error)
            }
        }
    }

    /// Releases the parts that were acquired, and the last part if it may have been granted.
    async fn undo(
        &self,
        request: &AcquireRequest,
        taken: &[(&Part<'_>, FencingToken)],
        last: Option<(&Part<'_>, Result<AcquireReply, StoreError>)>,
    ) -> Result<AcquireReply, StoreError> {
        let is_open = |answer: &Result<AcquireReply, StoreError>| match answer {
            // Nothing was sent.
            Err(error) if error.kind() == StoreErrorKind::Unavailable => false,
            answer => !is_refused(answer),
        };
        let open = last.as_ref().filter(|(_, answer)| is_open(answer));
        let parts = taken.iter().map(|(part, _)| *part).chain(open.map(|(part, _)| *part));
        let (target, owner) = (Arc::clone(&request.target), request.owner.clone());
        let release = ReleaseRequest::new(target, owner, request.timeout).with_lasts(request.lease);
        let undone = parts.map(|part| part.release(&release));
        let released = join_all(undone).await.into_iter().collect::<Result<Vec<_>, _>>();
        let unanswered = |source| {
            let message = "some of the locks could not be acquired, and the release of others is not confirmed";
            StoreError::new(StoreErrorKind::OutcomeUnknown, message).with_source(source)
        };
        match last {
            // The caller undoes all of it once more, whatever the outcome here.
            Some((_, Err(error))) if error.kind() == StoreErrorKind::OutcomeUnknown => Err(error),
            Some((_, Err(error))) if released.is_err() => Err(unanswered(error)),
            Some((_, Err(error))) => Err(error),
            Some((part, Ok(reply))) if is_refused(&Ok(reply)) => {
                released.map_err(unanswered)?;
                Ok(if taken.is_empty() { refused(part, reply) } else { AcquireReply::Split })
            }
            Some((_, Ok(other))) => released.map(|_| other).map_err(unanswered),
            None => released.map(|_| AcquireReply::Split).map_err(unanswered),
        }
    }

    /// Reports each hold as soon as enough parts have answered, so that a part that hangs delays no other report.
    async fn renew_all(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> Result<(), StoreError> {
        // The requests to each store, and the holds that they belong to.
        let mut by_store: BTreeMap<u64, (Vec<RenewRequest>, Vec<usize>)> = BTreeMap::new();
        let mut missing = Vec::with_capacity(requests.len());
        for (place, request) in requests.iter().enumerate() {
            let parts = self.parts(&request.target)?;
            missing.push(Some(parts.len()));
            for (JointPart { home, .. }, part) in request.target.parts().iter().zip(parts) {
                let (requests, places) = by_store.entry(*home).or_default();
                let (target, owner) = part.hold(&request.target, &request.owner);
                requests.push(RenewRequest::new(target, owner, request.lease));
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
                    // The watchdog asks for them again soon, without waiting for the slowest part.
                    places.iter().for_each(|place| tally.add(*place, Ownership::Unknown));
                }
                ended
            })
        });
        renewed_in_parts(join_all(asked).await)
    }

    async fn release_all(&self, request: ReleaseRequest) -> Result<ReleaseReply, StoreError> {
        let parts = self.parts(&request.target)?;
        let answers = join_all(parts.iter().map(|part| part.release(&request))).await;
        let (mut all, mut told, mut failed) = (true, 0, None);
        for answer in answers {
            match answer {
                Ok(ReleaseReply::NotOwner) => all = false,
                Ok(ReleaseReply::Released { others }) => told = others.max(told),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if error.kind().is_transient() => {
                // If one part is known to be lost, no later answer may hide that: the request is repeated, but
                // not as one that may have run. Otherwise it may have run: a repetition finds the other parts
                // free.
                let kind =
                    if all { StoreErrorKind::OutcomeUnknown } else { StoreErrorKind::NotReady };
                let message = "not all of the locks are released yet";
                Err(StoreError::new(kind, message).with_source(error))
            }
            Some(error) => Err(error),
            None if all => Ok(ReleaseReply::Released { others: told }),
            None => Ok(ReleaseReply::NotOwner),
        }
    }
}

/// The parts' answers to renewals so far.
struct Tally {
    /// For each hold: how many parts must still confirm it; `None` once that is decided otherwise.
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
                // Without one part there is no hold, whatever the other parts answer.
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

/// True for the answer that another owner has the lock or goes first: nothing was acquired.
fn is_refused(answer: &Result<AcquireReply, StoreError>) -> bool {
    matches!(
        answer,
        Ok(AcquireReply::Held(_) | AcquireReply::Behind(_) | AcquireReply::BehindRedisson { .. })
    )
}

/// Returns the answer of the whole if the first part has given this one.
fn refused(part: &Part<'_>, reply: AcquireReply) -> AcquireReply {
    match reply {
        AcquireReply::Held(left)
        | AcquireReply::Behind(left)
        | AcquireReply::BehindRedisson { left, .. }
            if part.target.kind() == HoldKind::Fair
                && left.is_none_or(|left| left > LOOK_AGAIN) =>
        {
            // Shorter than the holder's lease.
            AcquireReply::Behind(Some(LOOK_AGAIN))
        }
        reply => reply,
    }
}

impl Store for JointStore {
    /// On one store, whatever the kinds of the locks: a script asks for all of them.
    #[cfg(feature = "redis")]
    fn command(&self, request: CommandRequest) -> StoreFuture<'_, Option<RedisValue>> {
        StoreFuture::new(async move {
            let parts = self.parts(&request.target)?;
            let store = parts.first().map(|part| Arc::clone(part.store));
            match store.filter(|_| parts.windows(2).all(|two| two[0].home == two[1].home)) {
                Some(store) => store.command(request).await,
                None => {
                    let message = "these locks are on the servers of several clients, and no command can be run on all of them at once; \
                         hold a lock of one client for it";
                    Err(StoreError::new(StoreErrorKind::Config, message))
                }
            }
        })
    }

    fn ping(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            let asked = join_all(self.stores.values().map(|store| store.ping(timeout))).await;
            asked.into_iter().collect()
        })
    }

    fn settled(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            let settled = self.stores.values().map(|store| store.settled(timeout));
            join_all(settled).await.into_iter().collect()
        })
    }

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        StoreFuture::new(self.acquire_all(request))
    }

    fn renew_each(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> StoreFuture<'_, ()> {
        StoreFuture::new(self.renew_all(requests, timeout, on_renewed))
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        StoreFuture::new(self.release_all(request))
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        StoreFuture::new(async move {
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
