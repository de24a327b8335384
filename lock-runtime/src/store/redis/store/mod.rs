//! A store on one Redis server.

mod connect;
mod messages;
mod names;
mod notices;
mod releases;
mod report;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use self::messages::publish;
use super::link::Link;
use super::requests::answers::{acquired, inspection, number};
use super::requests::combine::{Asked, Combiner};
use super::requests::command;
use super::requests::info::Age;
use super::requests::renew::renew_all;
use super::requests::replicated::Replicated;
use super::requests::{HoldRequest, calls};
use super::scripts::{Answer, ScriptCall};
use super::server::errors::is_crossslot;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::fence::{FencingToken, RedisValue};
use crate::key::LockKey;
use crate::opaque::opaque_debug;
use crate::store::{
    AcquireReply, AcquireRequest, CommandRequest, HoldKind, Inspection, LatchRequest, Listening,
    MissingRight, NamesCursor, NamesPage, OnMessage, OnRenewed, ProcessNames, ReleaseReply,
    ReleaseRequest, RenewRequest, ServerFacts, ServerReport, Store, StoreFuture, Subscription,
    Target, no_hold,
};

/// A store that keeps locks on one Redis server, version 7.0 or later.
///
/// [`LockClientBuilder::connect`](crate::LockClientBuilder::connect) documents it.
pub struct RedisStore {
    pub(super) link: Arc<Link>,
    /// The link that receives notifications: the same one, but in a cluster a separate one.
    pub(super) subscriptions: Arc<Link>,
    combiner: Arc<Combiner>,
    age: Age,
    replicated: Replicated,
    /// True once a client has taken its id.
    is_claimed: AtomicBool,
}

impl RedisStore {
    /// Sends a request that may share its script with others.
    #[inline]
    fn hold(&self, request: HoldRequest) -> Asked {
        let target = request.target();
        if target.kind() == HoldKind::Latch {
            return Asked::alone(ready(Err(no_hold())));
        }
        if target.replicas().is_some() {
            let link = Arc::clone(self.replicated.link());
            let limit = request.timeout();
            let deadline = Instant::now() + limit;
            return Asked::alone(async move {
                let answer = link.run(&request.call(link.publish()), deadline).await;
                Ok(answer.map_err(|error| error.within(limit))?)
            });
        }
        self.link.ensure_task();
        self.combiner.ask(request)
    }

    async fn run(&self, call: &ScriptCall, timeout: Duration) -> Result<Answer, StoreError> {
        self.link.ensure_task();
        let answer = self.link.run(call, Instant::now() + timeout).await;
        Ok(answer.map_err(|error| error.within(timeout))?)
    }

    /// As [`run`](Self::run), for a call that must not run twice. Its time begins once there is a connection: what is sent just
    /// before the end of its time is given up at once.
    async fn run_once(&self, call: &ScriptCall, timeout: Duration) -> Result<Answer, StoreError> {
        self.link.ensure_task();
        let connected = self.link.connected(Instant::now() + timeout).await;
        connected.map_err(|error| error.within(timeout))?;
        self.run(call, timeout).await
    }
}

impl Store for RedisStore {
    fn ping(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            self.link.ensure_task();
            let pong = self.link.call(&redis::cmd("PING"), Instant::now() + timeout).await;
            Ok(pong.map(drop).map_err(|error| error.within(timeout))?)
        })
    }

    fn claim_id(&self) -> Option<Uuid> {
        (!self.is_claimed.swap(true, Ordering::Relaxed)).then_some(self.link.name.id)
    }

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        if let Some(replicas) = request.target.replicas() {
            return StoreFuture::new(self.replicated.acquire(request, replicas));
        }
        let tokens = request.tokens;
        let mut asked = self.hold(HoldRequest::Acquire(request));
        // Borrowed, or the future would have room for it twice.
        StoreFuture::new(async move { acquired(&(&mut asked).await?, tokens) })
    }

    fn renew_each(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
        on_renewed: OnRenewed,
    ) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            renew_all(&self.link, &self.replicated, &requests, timeout, &on_renewed).await
        })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        if self.link.has_sentinels() {
            self.remember(request.clone());
        }
        self.release_once(request)
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        StoreFuture::new(async move {
            self.subscriptions.ensure_task();
            let deadline = Instant::now() + timeout;
            let mut all = Vec::new();
            for (channel, waiter) in target.locks().flat_map(Target::channels) {
                let (notices, listener) = self.subscriptions.channels.listen(channel, waiter);
                self.subscriptions.subscribe(channel, deadline).await?;
                all.push(Subscription::new(notices, listener));
            }
            Ok(Subscription::any_of(all))
        })
    }

    fn meets_redisson(&self) -> bool {
        true
    }

    fn standing_subscription(&self, target: &Arc<Target>) -> Option<Subscription> {
        let channels = target.locks().flat_map(Target::channels);
        let all: Option<Vec<_>> = channels
            .map(|(channel, waiter)| {
                let (notices, listener) =
                    self.subscriptions.listen_if_subscribed(channel, waiter)?;
                Some(Subscription::new(notices, listener))
            })
            .collect();
        all.map(Subscription::any_of)
    }

    fn listen(&self, channel: &str, on_message: OnMessage) -> Listening {
        self.subscriptions.listen(&self.own_channel(channel), on_message)
    }

    fn listened(&self, channel: &str, timeout: Duration) -> StoreFuture<'_, ()> {
        let channel = self.own_channel(channel).into_owned();
        StoreFuture::new(async move { self.subscribed(&channel, Instant::now() + timeout).await })
    }

    fn publish(&self, channel: &str, message: &[u8], timeout: Duration) -> StoreFuture<'_, u32> {
        let channel = self.own_channel(channel);
        let publish = publish(self.link.publish(), &channel, message);
        StoreFuture::new(async move { self.sent(&publish, Instant::now() + timeout).await })
    }

    fn latch(
        &self,
        target: &Arc<Target>,
        request: LatchRequest,
        timeout: Duration,
    ) -> StoreFuture<'_, u64> {
        let call = calls::latch(self.link.publish(), target, request);
        StoreFuture::new(async move {
            let answer = match request.is_repeatable() {
                true => self.run(&call, timeout).await?,
                false => self.run_once(&call, timeout).await?,
            };
            Ok(u64::try_from(number(&answer)?).unwrap_or(0))
        })
    }

    fn command(&self, request: CommandRequest) -> StoreFuture<'_, Option<RedisValue>> {
        StoreFuture::new(async move {
            if self.link.is_cluster() {
                command::slot(&request)?;
            }
            let call = command::call(self.link.publish(), &request);
            match self.run_once(&call, request.timeout).await {
                // Nothing ran: the server is a cluster after all (S-40).
                Err(error) if is_crossslot(&error) => command::slot(&request).and(Err(error)),
                answer => command::outcome(answer?, &request.command),
            }
        })
    }

    fn inspect(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, Inspection> {
        let call = calls::inspect(self.link.publish(), key);
        StoreFuture::new(async move { inspection(&self.run(&call, timeout).await?) })
    }

    fn force_release(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, bool> {
        self.force_release_from(key, &[], timeout)
    }

    fn force_release_from(
        &self,
        key: &LockKey,
        clients: &[String],
        timeout: Duration,
    ) -> StoreFuture<'_, bool> {
        let call = calls::force_release(self.link.publish(), key, clients);
        StoreFuture::new(async move { Ok(number(&self.run(&call, timeout).await?)? == 1) })
    }

    fn names(
        &self,
        prefix: &str,
        from: NamesCursor,
        timeout: Duration,
    ) -> StoreFuture<'_, NamesPage> {
        let prefix = prefix.to_owned();
        StoreFuture::new(async move { self.page(&prefix, &from, Instant::now() + timeout).await })
    }

    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let call = calls::raise_token(self.link.publish(), target, token);
        StoreFuture::new(async move { self.run(&call, timeout).await.map(drop) })
    }

    fn age(&self, timeout: Duration) -> StoreFuture<'_, Option<Duration>> {
        StoreFuture::new(async move {
            self.link.ensure_task();
            self.age.of(&self.link, timeout).await.map(Some)
        })
    }

    fn servers(&self, timeout: Duration) -> StoreFuture<'_, Vec<ServerReport<ServerFacts>>> {
        StoreFuture::new(async move { Ok(vec![self.report(timeout).await]) })
    }

    fn missing_rights(
        &self,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<ServerReport<Vec<MissingRight>>>> {
        StoreFuture::new(async move { Ok(vec![self.rights(timeout).await]) })
    }

    fn processes(&self, timeout: Duration) -> StoreFuture<'_, ProcessNames> {
        StoreFuture::new(self.names_of_processes(timeout))
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.link.address()]
    }

    fn clock(&self) -> Clock {
        Clock::boot_time()
    }

    fn close(&self) {
        self.link.close();
        self.subscriptions.close();
        self.replicated.close();
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.close();
    }
}

// Neither address nor user: both come from a URL that may contain a password.
opaque_debug!(RedisStore);
