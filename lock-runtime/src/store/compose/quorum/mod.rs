//! One lock on several independent servers: its holder is the owner to which a majority of them granted it.
//!
//! All servers are asked at once, each in a task of its own, and the caller goes on as soon as a majority has decided.
//! If an acquire ([`election`]) is refused, the task of each server that granted the lock, however late, releases it
//! ([`server`]). [`tally`] counts the answers.
//!
//! # Tokens
//!
//! The servers mint tokens by their own clocks. So the highest token M of a majority is written to a majority before it
//! counts. A later majority shares a server with that one, whose tokens are above M by then; and M is above all earlier
//! tokens for the same reason.
// S-29, S-23.

mod election;
mod messages;
mod names;
mod reports;
mod server;
mod tally;

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use self::server::Server;
pub(crate) use self::tally::majority;
use self::tally::{Count, because, too_few};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::{
    AcquireReply, AcquireRequest, HoldKind, LatchRequest, Listening, MissingRight, NamesCursor,
    NamesPage, OnMessage, OnRenewed, Ownership, ReleaseReply, ReleaseRequest, RenewRequest,
    ServerFacts, ServerReport, Store, StoreFuture, Subscription, Target,
};

/// How long requests under way may delay the closing of the store.
const CLOSING: Duration = Duration::from_secs(1);

/// Keeps mutexes on a majority of servers.
pub(crate) struct QuorumStore {
    servers: Vec<Arc<Server>>,
    clock: Clock,
    timeout: Duration,
}

impl QuorumStore {
    /// Creates a quorum of these stores, which must be independent of each other. `None` if there are none.
    pub(crate) fn new(
        stores: Vec<Arc<dyn Store>>,
        timeout: Duration,
        restart_guard: Option<Duration>,
    ) -> Option<Self> {
        let clock = stores.first()?.clock();
        let server = |store| Server::new(store, timeout, restart_guard);
        Some(Self { servers: stores.into_iter().map(server).collect(), clock, timeout })
    }

    /// Reports each hold as soon as a majority has decided, or cannot any more.
    async fn renew_majority(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> Result<(), StoreError> {
        let all = self.servers.len();
        let mut open: Vec<_> = requests.iter().map(|_| Some(Count::default())).collect();
        let requests = Arc::new(requests);
        let mut answers = self.each(|server| {
            let requests = Arc::clone(&requests);
            async move { server.store.renew(requests.to_vec(), timeout).await }
        });
        let (mut failed, mut answered, mut left) = (None, 0, all);
        // Ends with the answer of the last server at the latest.
        while let Some(answer) = answers.recv().await {
            // What cannot be decided any more is reported at once: a server that is silent until the lease is over must not keep
            // the renewal from being asked again.
            left -= 1;
            answered += usize::from(answer.is_ok());
            for (place, hold) in open.iter_mut().enumerate() {
                let Some(count) = hold else { continue };
                match answer.as_ref().ok().and_then(|owned| owned.get(place)) {
                    Some(Ownership::Owner) => count.add(true),
                    Some(Ownership::NotOwner) => count.add(false),
                    Some(Ownership::Unknown) | None => {}
                }
                let known = count.ownership(all);
                if known != Ownership::Unknown || count.is_undecidable(all, left) {
                    *hold = None;
                    on_renewed(place, known);
                }
            }
            failed = failed.or(answer.err());
            if answered >= majority(all) && open.iter().all(Option::is_none) {
                break;
            }
        }
        match failed {
            Some(error) if all == 1 => Err(error),
            Some(error) if answered < majority(all) => Err(too_few(answered, all, Some(error))),
            _ => Ok(()),
        }
    }

    async fn release_majority(&self, request: ReleaseRequest) -> Result<ReleaseReply, StoreError> {
        let all = self.servers.len();
        let deadline = Instant::now() + request.timeout;
        let (answer, mut answers) = mpsc::unbounded_channel();
        for server in &self.servers {
            let turn = server.enqueue(&request.owner, true);
            spawn(Arc::clone(server).release_hold(turn, request.clone(), answer.clone()));
        }
        drop(answer);
        let (mut count, mut told, mut failed) = (Count::default(), 0, None);
        // A server whose attempt failed may answer a later one.
        while let Ok(Some(answer)) = timeout_at(deadline, answers.recv()).await {
            match answer {
                Ok(ReleaseReply::Released { others }) => {
                    told = others.max(told);
                    count.add(true);
                }
                Ok(ReleaseReply::NotOwner) => count.add(false),
                Err(error) if all == 1 => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
            if let Some(reply) = count.release(all, told) {
                return Ok(reply);
            }
        }
        let message = "too few servers of the quorum confirmed the release in time";
        Err(because(StoreError::new(StoreErrorKind::OutcomeUnknown, message), failed))
    }

    async fn subscribe_at_most(&self, target: Arc<Target>) -> Result<Subscription, StoreError> {
        let (all, timeout) = (self.servers.len(), self.timeout);
        let mut answers = self.each(|server| {
            let target = Arc::clone(&target);
            async move { server.store.subscribe(&target, timeout).await }
        });
        let (mut heard, mut failed) = (Vec::new(), None);
        while let Some(answer) = answers.recv().await {
            match answer {
                Ok(subscription) => heard.push(subscription),
                Err(error) => failed = failed.or(Some(error)),
            }
            // A majority receives every release, because each hold is on a majority.
            if heard.len() >= majority(all) && answers.is_empty() {
                break;
            }
        }
        match failed {
            Some(error) if heard.is_empty() => Err(error),
            _ => Ok(Subscription::any_of(heard)),
        }
    }

    /// Asks each server in a task of its own. The answers come in no order.
    fn each<T, F>(&self, ask: impl Fn(Arc<Server>) -> F) -> mpsc::UnboundedReceiver<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (answer, answers) = mpsc::unbounded_channel();
        for server in &self.servers {
            let (asked, answer) = (ask(Arc::clone(server)), answer.clone());
            spawn(async move {
                let _ = answer.send(asked.await);
            });
        }
        answers
    }
}

/// Outside of a runtime no server is asked, which counts as no answer.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(task);
    }
}

impl Store for QuorumStore {
    fn ping(&self, _: Duration) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            let asked = self.servers.iter().map(|server| server.store.ping(server.timeout));
            let (well, mut failed): (Vec<_>, Vec<_>) =
                join_all(asked).await.into_iter().partition(Result::is_ok);
            match failed.pop() {
                Some(Err(error)) if well.len() < majority(self.servers.len()) => Err(error),
                _ => Ok(()),
            }
        })
    }

    fn servers(&self, _: Duration) -> StoreFuture<'_, Vec<ServerReport<ServerFacts>>> {
        StoreFuture::new(self.reports())
    }

    fn addresses(&self) -> Vec<String> {
        self.servers.iter().flat_map(|server| server.store.addresses()).collect()
    }

    fn missing_rights(
        &self,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<ServerReport<Vec<MissingRight>>>> {
        StoreFuture::new(self.rights(timeout))
    }

    /// Returns the id of all servers, if they share one.
    fn claim_id(&self) -> Option<Uuid> {
        let mut ids = self.servers.iter().map(|server| server.store.claim_id());
        let first = ids.next()??;
        ids.all(|id| id == Some(first)).then_some(first)
    }

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        if request.target.kind() != HoldKind::Mutex {
            return mutexes_only(&format!("a {}", request.target.kind()));
        }
        StoreFuture::new(self.acquire_majority(request))
    }

    fn renew_each(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> StoreFuture<'_, ()> {
        StoreFuture::new(self.renew_majority(requests, timeout, on_renewed))
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        StoreFuture::new(self.release_majority(request))
    }

    fn latch(
        &self,
        _target: &Arc<Target>,
        _request: LatchRequest,
        _timeout: Duration,
    ) -> StoreFuture<'_, u64> {
        mutexes_only("a count-down latch")
    }

    fn subscribe(&self, target: &Arc<Target>, _timeout: Duration) -> StoreFuture<'_, Subscription> {
        StoreFuture::new(self.subscribe_at_most(Arc::clone(target)))
    }

    fn listen(&self, channel: &str, on_message: OnMessage) -> Listening {
        self.listen_at_all(channel, &on_message)
    }

    fn listened(&self, channel: &str, timeout: Duration) -> StoreFuture<'_, ()> {
        StoreFuture::new(self.listened_at_most(channel.to_owned(), timeout))
    }

    fn publish(&self, channel: &str, message: &[u8], timeout: Duration) -> StoreFuture<'_, u32> {
        StoreFuture::new(self.publish_at_all(channel.to_owned(), message.to_vec(), timeout))
    }

    fn names(
        &self,
        prefix: &str,
        from: NamesCursor,
        timeout: Duration,
    ) -> StoreFuture<'_, NamesPage> {
        let prefix = prefix.to_owned();
        StoreFuture::new(async move { self.page(&prefix, &from, timeout).await })
    }

    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let target = Arc::clone(target);
        StoreFuture::new(async move {
            let all = self.servers.len();
            let mut answers = self.each(|server| {
                let target = Arc::clone(&target);
                async move { server.store.raise_token(&target, token, timeout).await }
            });
            let (mut raised, mut failed) = (0, None);
            while let Some(answer) = answers.recv().await {
                match answer {
                    Ok(()) => raised += 1,
                    Err(error) => failed = failed.or(Some(error)),
                }
                if raised >= majority(all) {
                    return Ok(());
                }
            }
            Err(too_few(raised, all, failed))
        })
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn settled(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        let until = Instant::now() + timeout;
        let settled = self.servers.iter().map(move |server| server.settled(until));
        StoreFuture::new(async { join_all(settled).await.into_iter().collect() })
    }

    fn close(&self) {
        let servers = self.servers.clone();
        let Ok(runtime) = Handle::try_current() else {
            return servers.iter().for_each(|server| server.store.close());
        };
        runtime.spawn(async move {
            let until = Instant::now() + CLOSING;
            for server in servers {
                // The shutdown has not waited for them, or not long enough.
                server.idle(until).await;
                server.store.close();
            }
        });
    }
}

fn mutexes_only<'a, T: Send + 'a>(asked: &str) -> StoreFuture<'a, T> {
    let message = format!("a quorum of servers keeps mutexes only, and this is {asked}");
    StoreFuture::new(ready(Err(StoreError::new(StoreErrorKind::Config, message))))
}

impl fmt::Debug for QuorumStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumStore").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}
