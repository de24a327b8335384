//! A store on one Redis server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;
use tokio::runtime::Handle;
use tokio::time::Instant;
use uuid::Uuid;

use super::age::Age;
use super::eviction::warn_of_eviction;
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::key::LockKey;
#[cfg(feature = "tls-rustls")]
use crate::store::redis::TlsOptions;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::link::{CallError, Link};
use crate::store::redis::requests::answer::{acquired, surprise};
use crate::store::redis::requests::combine::Combiner;
use crate::store::redis::requests::replicated::Replicated;
use crate::store::redis::requests::{ScriptCall, field, locks, millis};
use crate::store::redis::scripts::{LATCH, MAX_KEYS, RAISE_TOKEN, SHOW_COUNT, Script};
use crate::store::redis::server::address;
use crate::store::{
    AcquireReply, AcquireRequest, CountRequest, HoldKind, Inspection, LatchRequest, OnRenewed,
    Ownership, ReleaseReply, ReleaseRequest, RenewRequest, Store, StoreFuture, Subscription,
    Target, gather_renewals, no_hold,
};

/// Keeps locks on one Redis server, version 7.0 or later.
///
/// One connection carries everything, notices included (RESP3), and is made again whenever it
/// breaks. Usually made by [`LockClient::connect`](crate::LockClient::connect).
///
/// # Permissions
///
/// A user of its own needs, for keys and channels under any prefix, these commands, which the
/// scripts call as well:
///
/// ```text
/// ACL SETUSER locks on >SECRET ~* resetchannels &* -@all
///   +evalsha +script|load +ping +subscribe +unsubscribe +publish +wait
///   +exists +type +del +pttl +pexpire +persist +rename +time +get +set +incrby +decr
///   +hexists +hget +hgetall +hkeys +hrandfield +hset +hdel
///   +lindex +lpop +lpos +lrange +lrem +rpush
///   +zadd +zcard +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zrevrange +zscore
/// ```
///
/// For mutexes alone, the first line, without `wait`, and `exists pttl pexpire hexists hset del time
/// get set incrby` are enough. `wait` is for locks that ask for replicas, `type` for
/// [`inspect`](crate::LockClient::inspect) and
/// [`force_release`](crate::LockClient::force_release).
/// With `+client|setname` connections have the name of [`LockClient::id`](crate::LockClient::id) in `CLIENT LIST`.
/// With a [restart guard](crate::QuorumBuilder::restart_guard), `+info` as well, which also has
/// `connect` warn of a server that evicts keys; with
/// [sentinels](Self::connect_sentinel), `+role`.
///
/// # Servers for locks
///
/// Use `maxmemory-policy noeviction`: an evicted lock is a lost one. Each name leaves one small
/// counter behind that expires a day after its last use; it keeps fencing tokens growing.
pub struct RedisStore {
    pub(super) link: Arc<Link>,
    /// What hears of notices: the same link, but in a cluster one of its own.
    pub(super) subscriptions: Arc<Link>,
    combiner: Arc<Combiner>,
    age: Age,
    pub(super) replicated: Replicated,
    /// True once a client has its id.
    is_claimed: AtomicBool,
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`, `rediss://…` (feature
    /// `tls-rustls`), or `unix:///path[?db=…&user=…&pass=…]`.
    ///
    /// # Errors
    ///
    /// At once, by [`StoreError::kind`]: `Config` if the address cannot be used or the server's
    /// certificate is not trusted, `Unavailable` if the server cannot be reached, `Denied` if it
    /// refuses the credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::open(address::client(url)?).await
    }

    /// As [`connect`](Self::connect) to a `rediss://` address, with a private authority or a client
    /// certificate.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); `Config` as well if `tls` cannot be used or the address is not
    /// one of TLS.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::{LockClient, RedisStore, TlsOptions};
    ///
    /// let tls = TlsOptions::new().root_certificate(std::fs::read("ca.pem")?);
    /// let store = RedisStore::connect_with_tls("rediss://redis.internal:6380", &tls).await?;
    /// let client = LockClient::builder().store(store)?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub async fn connect_with_tls(url: &str, tls: &TlsOptions) -> Result<Self, StoreError> {
        Self::open(address::client_with_tls(url, tls)?).await
    }

    pub(crate) async fn open(source: impl Into<Endpoint>) -> Result<Self, StoreError> {
        let link = Link::connect(source).await?;
        warn_of_eviction(&link).await;
        Ok(Self::on(link))
    }

    pub(crate) fn on(link: Arc<Link>) -> Self {
        Self {
            combiner: Combiner::new(Arc::clone(&link)),
            replicated: Replicated::new(Arc::clone(&link)),
            subscriptions: link.for_notices(),
            link,
            age: Age::default(),
            is_claimed: AtomicBool::new(false),
        }
    }

    pub(crate) fn close_links(&self) {
        self.link.close();
        self.subscriptions.close();
        self.replicated.close();
    }

    /// A store that is still to be [connected](Self::connect_now), for one of several servers.
    pub(crate) fn prepare(url: &str, id: Uuid) -> Result<Self, StoreError> {
        Ok(Self::on(Link::named(address::client(url)?, id)))
    }

    /// As [`prepare`](Self::prepare), with TLS options.
    #[cfg(feature = "tls-rustls")]
    pub(crate) fn prepare_with_tls(
        url: &str,
        tls: &TlsOptions,
        id: Uuid,
    ) -> Result<Self, StoreError> {
        Ok(Self::on(Link::named(address::client_with_tls(url, tls)?, id)))
    }

    /// Has a prepared store connect in the background, if there is a runtime; else its first use does.
    pub(crate) fn connect_soon(&self) {
        if Handle::try_current().is_ok() {
            self.link.ensure_task();
        }
    }

    /// Connects a prepared store. If that fails it goes on in the background, and is logged.
    pub(crate) async fn connect_now(&self) -> Result<(), StoreError> {
        let connected = self.link.open_first().await;
        self.link.ensure_task();
        if connected.is_ok() {
            warn_of_eviction(&self.link).await;
        }
        connected
    }

    /// Takes or frees: a request that may share its script with others.
    async fn ask(&self, ask: ScriptCall) -> Result<Value, StoreError> {
        if ask.target().kind() == HoldKind::Latch {
            return Err(no_hold());
        }
        if ask.target().replicas().is_some() {
            return self.replicated.run(&ask).await;
        }
        self.link.ensure_task();
        self.combiner.run(ask).await
    }

    pub(crate) async fn run(
        &self,
        script: &Script,
        call: redis::Cmd,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        self.link.ensure_task();
        script.run(&self.link, call, Instant::now() + timeout).await
    }
}

impl Store for RedisStore {
    fn ping(&self, timeout: Duration) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.link.ensure_task();
            let asked = self.link.call(&redis::cmd("PING"), Instant::now() + timeout).await;
            Ok(asked.map(drop)?)
        })
    }

    fn claim_id(&self) -> Option<Uuid> {
        (!self.is_claimed.swap(true, Ordering::Relaxed)).then(|| self.link.id())
    }

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        Box::pin(async move {
            if let Some(replicas) = request.target.replicas() {
                return self.replicated.acquire(request, replicas).await;
            }
            let tokens = request.tokens;
            acquired(&self.ask(ScriptCall::Acquire(request)).await?, tokens)
        })
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
        Box::pin(async move { self.renew_all(&requests, timeout, &on_renewed).await })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        Box::pin(async move {
            let target = Arc::clone(&request.target);
            let own_notices = self.own_notices(&target);
            let answer = match request.keep {
                Duration::ZERO => self.ask(ScriptCall::Release(request)).await,
                _ => self.end_later(&request).await,
            };
            match answer {
                Ok(Value::Int(-1)) => Ok(ReleaseReply::NotOwner),
                Ok(Value::Int(told)) => {
                    let others = self.others(&target, told);
                    if others > 0 {
                        own_notices.heard().await;
                    }
                    Ok(ReleaseReply::Released { others })
                }
                Ok(other) => Err(surprise(&other)),
                // Somebody put something else there; it is not ours to remove.
                Err(error) if error.kind() == StoreErrorKind::WrongType => {
                    Ok(ReleaseReply::NotOwner)
                }
                Err(error) => Err(error),
            }
        })
    }

    fn show_counts(&self, requests: Vec<CountRequest>, timeout: Duration) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let shown: Vec<_> = requests
                .iter()
                .flat_map(|request| {
                    locks(&request.target).map(move |lock| (lock, &request.owner, request.count))
                })
                .collect();
            let scripts = shown.chunks(MAX_KEYS).map(|shown| async move {
                let mut call = SHOW_COUNT.call(self.link.notices(), shown.len());
                for (lock, ..) in shown {
                    call.arg(lock.key().as_str());
                }
                for (lock, owner, count) in shown {
                    call.arg(field(lock, owner)).arg(*count);
                }
                self.run(&SHOW_COUNT, call, timeout).await
            });
            try_join_all(scripts).await?;
            Ok(())
        })
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        Box::pin(async move {
            self.subscriptions.ensure_task();
            let deadline = Instant::now() + timeout;
            let mut all = Vec::new();
            for lock in locks(&target) {
                let (notices, listener) = self.subscriptions.channels.listen(lock.channel());
                self.subscriptions.subscribe(lock.channel(), deadline).await?;
                all.push(Subscription::new(notices, listener));
            }
            Ok(Subscription::any_of(all))
        })
    }

    fn latch(
        &self,
        target: &Arc<Target>,
        request: LatchRequest,
        timeout: Duration,
    ) -> StoreFuture<'_, u64> {
        let target = Arc::clone(target);
        Box::pin(async move {
            let mut call = LATCH.call(self.link.notices(), 3);
            call.arg(target.key().as_str()).arg(target.fence_counter()).arg(target.companions());
            call.arg(target.channel());
            match request {
                LatchRequest::SetCount(count) => call.arg("set").arg(count),
                LatchRequest::CountDown => call.arg("down").arg(""),
                LatchRequest::Count => call.arg("count").arg(""),
                LatchRequest::Remove => call.arg("remove").arg(""),
            };
            match self.run(&LATCH, call, timeout).await? {
                Value::Int(count) => Ok(u64::try_from(count).unwrap_or(0)),
                other => Err(surprise(&other)),
            }
        })
    }

    fn inspect(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, Inspection> {
        let key = key.clone();
        Box::pin(async move { self.look_at(&key, timeout).await })
    }

    fn force_release(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, bool> {
        let key = key.clone();
        Box::pin(async move { self.free(&key, timeout).await })
    }

    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let target = Arc::clone(target);
        Box::pin(async move {
            let mut call = RAISE_TOKEN.call(self.link.notices(), 1);
            call.arg(target.fence_counter()).arg(token.get()).arg(millis(target.token_ttl()));
            self.run(&RAISE_TOKEN, call, timeout).await?;
            Ok(())
        })
    }

    fn age(&self, timeout: Duration) -> StoreFuture<'_, Option<Duration>> {
        Box::pin(async move {
            self.link.ensure_task();
            self.age.of(&self.link, timeout).await.map(Some)
        })
    }

    fn clock(&self) -> Clock {
        Clock::boot_time()
    }

    fn close(&self) {
        self.close_links();
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither address nor user: both come from a URL that may carry a password.
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
