//! The store, which keeps a lock outside this process, and the types of its requests and replies.
//!
//! Programs connect a `RedisStore`, a `ClusterStore` or a [`MemoryStore`] and inspect locks through their
//! [`Inspection`]. A [`Store`] answers requests and sends notifications. It knows nothing of local waiters,
//! leases or guards; the caller decides what an answer means.

pub(crate) mod compose;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;

mod client_id;
#[cfg(feature = "redis")]
mod command;
pub(crate) mod kind;
mod message;
mod names;
mod owner;
mod report;
mod request;
mod subscription;
mod target;
pub(crate) mod unsent;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use stackfuture::StackFuture;
use uuid::Uuid;

use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
#[cfg(feature = "redis")]
use crate::fence::RedisValue;
use crate::key::LockKey;

pub use self::client_id::client_id;
pub(crate) use self::client_id::new_id;
#[cfg(feature = "redis")]
pub use self::command::{Command, CommandRequest};
pub use self::kind::HoldKind;
pub use self::memory::MemoryStore;
#[cfg(feature = "redis")]
pub(crate) use self::message::Callback;
pub(crate) use self::message::Callbacks;
pub use self::message::{Listening, OnMessage};
pub use self::names::{NamesCursor, NamesPage};
pub(crate) use self::owner::HoldNumber;
pub use self::owner::OwnerId;
#[cfg(feature = "tls-rustls")]
pub use self::redis::TlsOptions;
#[cfg(feature = "redis")]
pub use self::redis::{ClusterStore, RedisStore};
pub use self::report::{MissingRight, ServerFacts, ServerReport};
pub use self::request::{
    AcquireReply, AcquireRequest, Inspection, LatchRequest, OnRenewed, Ownership, ReleaseReply,
    ReleaseRequest, RenewRequest, StoredHold, StoredWaiter,
};
pub use self::subscription::Subscription;
pub use self::target::Target;

/// The room of a [`StoreFuture`], in bytes: enough for a request that waits for its answer.
const ROOM: usize = 160;

pin_project! {
    /// The future that a [`Store`] method returns. A small one is kept without an allocation.
    #[must_use = "futures do nothing unless polled"]
    pub struct StoreFuture<'a, T> {
        #[pin]
        future: StackFuture<'a, Result<T, StoreError>, ROOM>,
    }
}

impl<'a, T> StoreFuture<'a, T> {
    /// Wraps any future.
    pub fn new(future: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        Self { future: StackFuture::from_or_box(future) }
    }
}

impl<T> Future for StoreFuture<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx)
    }
}

/// Names of processes, by the ids of their clients.
pub type ProcessNames = HashMap<String, String>;

/// The answer of a store that supports only some kinds of locks.
pub(crate) fn unsupported<'a, T: Send + 'a>(what: &str) -> StoreFuture<'a, T> {
    let message = format!("this store does not support {what}");
    StoreFuture::new(std::future::ready(Err(StoreError::new(StoreErrorKind::Config, message))))
}

/// The error of waiting for a subscription that no function listens to.
pub(crate) fn not_listened() -> StoreError {
    StoreError::new(StoreErrorKind::Config, "nothing listens to this channel; call `listen` first")
}

/// Reports the answers of one part of a renewal, whose requests have these places in the whole.
#[cfg(feature = "redis")]
pub(crate) fn tell_part(
    places: impl IntoIterator<Item = usize>,
    answers: Result<Vec<Ownership>, StoreError>,
    on_renewed: &OnRenewed,
) -> Result<(), StoreError> {
    for (at, place) in places.into_iter().enumerate() {
        let known = answers.as_ref().ok().and_then(|answers| answers.get(at).copied());
        on_renewed(place, known.unwrap_or(Ownership::Unknown));
    }
    answers.map(drop)
}

/// The result of a renewal in parts: an error if no part was answered. A part that fails says nothing about the
/// holds of another.
#[cfg(feature = "redis")]
pub(crate) fn renewed_in_parts(ended: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    let answered = ended.iter().any(Result::is_ok);
    match ended.into_iter().find_map(Result::err) {
        Some(error) if !answered => Err(error),
        Some(error) => {
            // The watchdog warns of the holds that were not answered, by name.
            tracing::debug!(%error, "a part of a renewal failed");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns true if the store says that one of these owners holds that lock. Two stores of which one says so of what the
/// other has granted are one, whatever their addresses are.
///
/// # Errors
///
/// If the store does not say.
// S-28.
pub(crate) async fn holds_any(
    store: &dyn Store,
    holds: Vec<(Arc<Target>, OwnerId)>,
    timeout: Duration,
) -> Result<bool, StoreError> {
    // This lease only asks. Every user who may acquire may renew.
    let ask = |(target, owner)| RenewRequest::new(target, owner, Duration::ZERO);
    let answers = store.renew(holds.into_iter().map(ask).collect(), timeout).await?;
    if answers.contains(&Ownership::Owner) {
        return Ok(true);
    }
    if answers.contains(&Ownership::Unknown) {
        let message = "too few servers said whether two clients use the same ones";
        return Err(StoreError::new(StoreErrorKind::NotReady, message));
    }
    Ok(false)
}

/// The error for an acquire or release of data that is not a lock.
pub(crate) fn no_hold() -> StoreError {
    let message = "a count-down latch cannot be acquired or released; count it down";
    StoreError::new(StoreErrorKind::Config, message)
}

/// A place that keeps locks where several processes see them.
///
/// # Contract
///
/// - Each request is atomic: no other request changes the lock between its check and its change.
/// - A store may support only some kinds; it answers the others with `Config`.
/// - `acquire` sets the hold for its owner and never adds to it, so a repeated request changes
///   nothing. It mints tokens above every earlier one of that name.
/// - `renew` and `release` compare the owner and never create anything. `renew` answers its
///   requests in order. `release` also gives up the owner's place, if it has one.
/// - A store implements `renew` or `renew_each`, or both: each by itself calls the other, without an end if
///   a store has neither.
/// - `subscribe` resolves only when every later release is noticed.
/// - A dropped future may still take effect; its caller must clean up. A request made after it on the same
///   store takes effect after it, unless a connection broke in between.
/// - Every future ends within the request's timeout; `timeout` for the others.
///
/// The contract suite in `tests/src/contract` holds for every implementation.
// S-22, S-23, S-19, S-17, S-15, S-21.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Acquires a lock if it is free or belongs to the same owner.
    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply>;

    /// Extends leases, all in one request; one answer per request, in order.
    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        StoreFuture::new(async move {
            let answers = Arc::new(Mutex::new(vec![Ownership::Unknown; requests.len()]));
            let known = Arc::clone(&answers);
            let on_renewed = move |place: usize, answer| {
                known.lock().get_mut(place).into_iter().for_each(|known| *known = answer);
            };
            self.renew_each(requests, timeout, Arc::new(on_renewed)).await?;
            let answers = answers.lock();
            Ok(answers.clone())
        })
    }

    /// As [`renew`](Self::renew), and calls `on_renewed` with each answer as soon as it is known, by the
    /// request's place: a store that asks several servers must not delay the answer of one until a slower one
    /// has answered. Requests without a call by the end have no answer.
    fn renew_each(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            let answers = self.renew(requests, timeout).await?;
            answers.into_iter().enumerate().for_each(|(place, answer)| on_renewed(place, answer));
            Ok(())
        })
    }

    /// Frees a lock if the owner holds it, at once or later by itself, and notifies its waiters.
    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply>;

    /// Subscribes to releases of a lock.
    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription>;

    /// Returns a subscription to releases of a lock if the store needs no request for it, because it has subscribed the
    /// channel for another waiter already. A waiter that has it before it asks need not ask again.
    fn standing_subscription(&self, target: &Arc<Target>) -> Option<Subscription> {
        let _ = target;
        None
    }

    /// True if clients of Redisson may use the same locks.
    fn meets_redisson(&self) -> bool {
        false
    }

    /// Calls a function with each message that is published on a channel, until the result is dropped. Also works without
    /// a connection and outside of a runtime: the store subscribes as soon as it has a connection, and again on each
    /// later one. Messages that are published while there is none are lost, and a store of several servers may deliver a
    /// message several times. If the server refuses the subscription, no message comes, and nothing else changes;
    /// [`listened`](Self::listened) returns the error. The listeners of a server's databases are apart.
    ///
    /// A channel must have no other use, such as a channel of a lock.
    // S-35.
    fn listen(&self, channel: &str, on_message: OnMessage) -> Listening {
        let _ = (channel, on_message);
        Listening::none()
    }

    /// Resolves once the server has confirmed the subscription of a channel that this store
    /// [listens](Self::listen) to. After a refusal, it subscribes again.
    fn listened(&self, channel: &str, timeout: Duration) -> StoreFuture<'_, ()> {
        let _ = (channel, timeout);
        unsupported("messages")
    }

    /// Publishes a message on a channel, and returns how many connections received it: at least the number of processes
    /// that listen, if all use one server.
    fn publish(&self, channel: &str, message: &[u8], timeout: Duration) -> StoreFuture<'_, u32> {
        let _ = (channel, message, timeout);
        unsupported("messages")
    }

    /// Operates a count-down latch. Do not repeat it blindly: a count whose answer was lost has been counted.
    fn latch(
        &self,
        target: &Arc<Target>,
        request: LatchRequest,
        timeout: Duration,
    ) -> StoreFuture<'_, u64> {
        let _ = (target, request, timeout);
        unsupported("count-down latches")
    }

    /// Runs a command of the caller's own if an owner holds a lock, in one step; `None` if it does not, and nothing ran. Do not
    /// repeat it blindly: a command whose answer was lost may have run.
    // S-37.
    #[cfg(feature = "redis")]
    fn command(&self, request: CommandRequest) -> StoreFuture<'_, Option<RedisValue>> {
        let _ = request;
        unsupported(
            "commands under a hold, which need one Redis server, a master that sentinels name, or a cluster",
        )
    }

    /// Inspects a name without changing it.
    fn inspect(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, Inspection> {
        let _ = (key, timeout);
        unsupported("inspection")
    }

    /// Frees a name from any holder, as the kind that it is held as, and notifies its waiters. False if it was
    /// not held. Fencing counters stay.
    fn force_release(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, bool> {
        let _ = (key, timeout);
        unsupported("forced release")
    }

    /// As [`force_release`](Self::force_release), and false if one of the holders belongs to another client: an id of a
    /// holder begins with none of these. Without any, all clients are meant.
    fn force_release_from(
        &self,
        key: &LockKey,
        clients: &[String],
        timeout: Duration,
    ) -> StoreFuture<'_, bool> {
        let _ = (key, clients, timeout);
        unsupported("forced release")
    }

    /// Lists the names in use that begin with a prefix, in pages: names that are held, and those whose waiters have a
    /// place in the store. Call it with [`NamesCursor::start`] and then with each page's cursor, until there is none.
    ///
    /// A name that is in use from the first page to the last is listed, perhaps several times. One that is acquired or
    /// released meanwhile may be missing, and so may one whose slot moves to another node of a cluster right then; one
    /// whose last holder died may still be listed for a while. Other data, free semaphores and count-down latches are
    /// not. A page keeps a server busy for less than 1 ms.
    // S-35.
    fn names(
        &self,
        prefix: &str,
        from: NamesCursor,
        timeout: Duration,
    ) -> StoreFuture<'_, NamesPage> {
        let _ = (prefix, from, timeout);
        unsupported("lists of names")
    }

    /// Raises the fencing counter of a name to `token` if it is below.
    // S-29.
    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let _ = (target, token, timeout);
        unsupported("quorums")
    }

    /// Returns how long ago the server started, for a server that loses locks when it restarts.
    // S-29.
    fn age(&self, timeout: Duration) -> StoreFuture<'_, Option<Duration>> {
        let _ = timeout;
        StoreFuture::new(std::future::ready(Ok(None)))
    }

    /// Returns what each server reports of itself, for people who operate it; nothing for a store without servers.
    fn servers(&self, timeout: Duration) -> StoreFuture<'_, Vec<ServerReport<ServerFacts>>> {
        let _ = timeout;
        StoreFuture::new(std::future::ready(Ok(Vec::new())))
    }

    /// Tries each right that the user needs on each server, and returns those that it lacks; nothing for a store without
    /// servers.
    fn missing_rights(
        &self,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<ServerReport<Vec<MissingRight>>>> {
        let _ = timeout;
        StoreFuture::new(std::future::ready(Ok(Vec::new())))
    }

    /// Returns the processes whose clients have connections to the servers, as `service@host:pid`, by the ids that their
    /// holders have; nothing for a store without servers, or one that [inspects](Self::inspect) no locks.
    fn processes(&self, timeout: Duration) -> StoreFuture<'_, ProcessNames> {
        let _ = timeout;
        StoreFuture::new(std::future::ready(Ok(ProcessNames::new())))
    }

    /// Checks the server: `Ok` if the store would answer requests for locks now.
    fn ping(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        let _ = timeout;
        unsupported("signs of life")
    }

    /// Returns the addresses of the servers, without credentials, for the log; nothing for a store without servers.
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the uuid under which the servers know the connections of this store: the client of the store
    /// uses it as its own. `None` for a store without connections, and from the second call on: two clients
    /// must not share one.
    fn claim_id(&self) -> Option<Uuid> {
        None
    }

    /// Returns the clock that measures this store's leases.
    fn clock(&self) -> Clock;

    /// Waits for at most `timeout` until no acquire or release is under way that outlasted its caller, as those at the
    /// slower servers of a quorum may. A shutdown calls it last, within its grace, and ignores its error.
    fn settled(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        let _ = timeout;
        StoreFuture::new(std::future::ready(Ok(())))
    }

    /// Ends background work. Called at the end of each shutdown that leaves nothing unfinished, so perhaps more
    /// than once.
    fn close(&self) {}
}
