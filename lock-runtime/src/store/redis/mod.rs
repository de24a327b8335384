//! A store on one Redis server, on Redisson's keys, fields and channels (S-2, S-25).
//!
//! Each request is one script, so the server makes it atomic. The only place that names the client
//! library, none of whose types are public.

mod address;
mod channels;
mod combine;
mod errors;
mod link;
mod request;
mod script;
#[cfg(feature = "tls-rustls")]
mod tls;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Value};
use tokio::time::Instant;

use self::combine::Combiner;
use self::link::{CallError, Link};
use self::request::{Ask, COUNTER_EXPIRY, end_of_hold, field, locks, millis};
use self::script::{
    LATCH_COUNT_DOWN, LATCH_REMOVE, LATCH_SET, RAISE_TOKEN, RENEW, SHOW_COUNT, Script,
};
#[cfg(feature = "tls-rustls")]
pub use self::tls::TlsOptions;
use super::{
    AcquireReply, AcquireRequest, CountRequest, LatchRequest, LockKind, Ownership, ReleaseReply,
    ReleaseRequest, RenewRequest, Store, StoreFuture, Subscription, Target, no_hold,
};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;

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
///   +evalsha +script|load +ping +subscribe +unsubscribe +publish
///   +exists +pttl +pexpire +hexists +hset +del +time +get +set +incrby
/// ```
///
/// # Servers for locks
///
/// Use `maxmemory-policy noeviction`: an evicted lock is a lost one. Each name leaves one small
/// counter behind that expires a day after its last use; it keeps fencing tokens growing.
pub struct RedisStore {
    link: Arc<Link>,
    combiner: Arc<Combiner>,
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

    async fn open(client: Client) -> Result<Self, StoreError> {
        let link = Link::connect(client).await.map_err(errors::connect_error)?;
        Ok(Self { combiner: Combiner::new(Arc::clone(&link)), link })
    }

    /// Takes or frees: a request that may share its script with others.
    async fn ask(&self, ask: Ask) -> Result<Value, StoreError> {
        if ask.target().kind() == LockKind::Latch {
            return Err(no_hold());
        }
        self.link.ensure_task();
        self.combiner.run(ask).await
    }

    /// True if a release was heard by anybody but the tasks that line up behind it here (S-14).
    fn others_wait(&self, target: &Target, told: i64) -> bool {
        if told == 0 || target.kind() == LockKind::Fair {
            // A fair mutex tells one waiter, on its own channel.
            return told > 0;
        }
        let heard_here = |lock: &Target| i64::from(self.link.hears(lock.channel()));
        // Whoever released was in front of its own line, and nobody of that listens. So a listener
        // of this process is another kind of lock on the same name, or several locks at once.
        told > locks(target).map(heard_here).sum()
            || locks(target).any(|lock| self.link.channels.has_listeners(lock.channel()))
    }

    async fn run(
        &self,
        script: &Script,
        call: &redis::Cmd,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        self.link.ensure_task();
        script.run(&self.link, call, Instant::now() + timeout).await
    }
}

/// An answer that no script of this version gives.
fn surprise(answer: &Value) -> StoreError {
    // The kind of value only: the value itself might be an owner.
    let shape = match answer {
        Value::Nil => "nothing",
        Value::Int(_) => "an unexpected number",
        Value::BulkString(_) | Value::SimpleString(_) => "unexpected text",
        _ => "an unexpected structure",
    };
    StoreError::new(StoreErrorKind::Protocol, format!("a lock script answered {shape}"))
}

impl Store for RedisStore {
    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        Box::pin(async move {
            let tokens = request.tokens;
            match self.ask(Ask::Acquire(request)).await? {
                Value::Int(pttl) => {
                    Ok(AcquireReply::Held(u64::try_from(pttl).ok().map(Duration::from_millis)))
                }
                Value::BulkString(text) => first_token(&text, tokens).map(AcquireReply::Granted),
                other => Err(surprise(&other)),
            }
        })
    }

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        Box::pin(async move {
            let holds = || {
                requests.iter().flat_map(|request| {
                    locks(&request.target).map(move |lock| (lock, &request.owner, request.lease))
                })
            };
            let mut call = RENEW.call(2 * holds().count());
            for (lock, owner, _) in holds() {
                call.arg(lock.key().as_str()).arg(end_of_hold(lock, owner));
            }
            for (lock, owner, lease) in holds() {
                let manner = match lock.kind() {
                    LockKind::Read => "read",
                    LockKind::Semaphore => "permit",
                    _ => "hold",
                };
                call.arg(manner).arg(field(lock, owner)).arg(millis(lease)).arg(owner.permits());
            }
            match self.run(&RENEW, &call, timeout).await? {
                Value::Array(held) if held.len() == holds().count() => {
                    let mut held = held.iter().map(ownership);
                    let mut whole = |request: &RenewRequest| {
                        let parts: Result<Vec<_>, _> =
                            held.by_ref().take(locks(&request.target).count()).collect();
                        let whole = parts?.into_iter().all(|part| part == Ownership::Owner);
                        Ok(if whole { Ownership::Owner } else { Ownership::NotOwner })
                    };
                    requests.iter().map(&mut whole).collect()
                }
                other => Err(surprise(&other)),
            }
        })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        Box::pin(async move {
            let target = Arc::clone(&request.target);
            match self.ask(Ask::Release(request)).await {
                Ok(Value::Int(-1)) => Ok(ReleaseReply::NotOwner),
                Ok(Value::Int(told)) => {
                    Ok(ReleaseReply::Released { others_waiting: self.others_wait(&target, told) })
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
            let shown = || {
                requests.iter().flat_map(|request| {
                    locks(&request.target).map(move |lock| (lock, &request.owner, request.count))
                })
            };
            let mut call = SHOW_COUNT.call(shown().count());
            for (lock, ..) in shown() {
                call.arg(lock.key().as_str());
            }
            for (lock, owner, count) in shown() {
                call.arg(field(lock, owner)).arg(count);
            }
            self.run(&SHOW_COUNT, &call, timeout).await?;
            Ok(())
        })
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        Box::pin(async move {
            self.link.ensure_task();
            let deadline = Instant::now() + timeout;
            let mut all = Vec::new();
            for lock in locks(&target) {
                let (notices, listener) = self.link.channels.listen(lock.channel());
                self.link.subscribe(lock.channel(), deadline).await?;
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
            let key = target.key().as_str();
            let answer = match request {
                LatchRequest::Count => {
                    self.link.ensure_task();
                    let mut call = redis::cmd("GET");
                    call.arg(key);
                    self.link.call(&call, Instant::now() + timeout).await?
                }
                LatchRequest::SetCount(count) => {
                    let mut call = LATCH_SET.call(1);
                    call.arg(key).arg(count).arg(target.channel());
                    self.run(&LATCH_SET, &call, timeout).await?
                }
                LatchRequest::CountDown => {
                    let mut call = LATCH_COUNT_DOWN.call(1);
                    call.arg(key).arg(target.channel());
                    self.run(&LATCH_COUNT_DOWN, &call, timeout).await?
                }
                LatchRequest::Remove => {
                    let mut call = LATCH_REMOVE.call(1);
                    call.arg(key).arg(target.channel());
                    self.run(&LATCH_REMOVE, &call, timeout).await?
                }
            };
            match answer {
                Value::Nil => Ok(0),
                Value::Int(count) => Ok(u64::try_from(count).unwrap_or(0)),
                Value::BulkString(text) => {
                    match std::str::from_utf8(&text).map(str::parse::<i64>) {
                        Ok(Ok(count)) => Ok(u64::try_from(count).unwrap_or(0)),
                        _ => Err(StoreError::new(
                            StoreErrorKind::WrongType,
                            "a value that is no count-down latch",
                        )),
                    }
                }
                other => Err(surprise(&other)),
            }
        })
    }

    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let target = Arc::clone(target);
        Box::pin(async move {
            let mut call = RAISE_TOKEN.call(1);
            call.arg(target.fence_counter()).arg(token.get()).arg(millis(COUNTER_EXPIRY));
            self.run(&RAISE_TOKEN, &call, timeout).await?;
            Ok(())
        })
    }

    fn clock(&self) -> Clock {
        Clock::boot_time()
    }

    fn close(&self) {
        self.link.close();
    }
}

/// The first of the reserved tokens, from the last.
fn first_token(last: &[u8], tokens: u32) -> Result<FencingToken, StoreError> {
    let last = std::str::from_utf8(last).ok().and_then(|text| text.parse::<u64>().ok());
    match last.and_then(|last| last.checked_sub(u64::from(tokens.max(1)) - 1)) {
        Some(first) => Ok(FencingToken::new(first)),
        None => Err(StoreError::new(
            StoreErrorKind::Protocol,
            "the fencing counter is not a number; delete its key",
        )),
    }
}

fn ownership(answer: &Value) -> Result<Ownership, StoreError> {
    match answer {
        Value::Int(1) => Ok(Ownership::Owner),
        Value::Int(0) => Ok(Ownership::NotOwner),
        other => Err(surprise(other)),
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither address nor user: both come from a URL that may carry a password.
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
