//! A store on one Redis server, on Redisson's keys, fields and channels (S-2, S-25).
//!
//! Each request is one script, so the server makes it atomic. The only place that names the client
//! library, none of whose types are public.

mod channels;
mod errors;
mod link;
mod script;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, IntoConnectionInfo, ProtocolVersion, RedisError, Value};
use tokio::time::Instant;

use self::link::{CallError, Link};
use self::script::{MUTEX_ACQUIRE, MUTEX_RELEASE, RENEW, SHOW_COUNT, Script};
use super::{
    AcquireReply, AcquireRequest, CountRequest, Ownership, ReleaseReply, ReleaseRequest,
    RenewRequest, Store, StoreFuture, Subscription, Target,
};
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;

/// How long a fencing counter outlives its last use (S-23).
const COUNTER_EXPIRY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the connection may be silent before the system probes it: less than routers take to
/// forget one.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new().with_time(Duration::from_secs(30));

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
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`, `rediss://…` (feature
    /// `tls-rustls`), or `unix:///path[?db=…&user=…&pass=…]`.
    ///
    /// # Errors
    ///
    /// At once, by [`StoreError::kind`]: `Config` if the address cannot be used, `Unavailable` if the
    /// server cannot be reached, `Denied` if it refuses the credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let client = client(url)?;
        let link = Link::connect(client).await.map_err(errors::connect_error)?;
        Ok(Self { link })
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

fn client(url: &str) -> Result<Client, StoreError> {
    let unusable = |error: RedisError| {
        let message = format!(
            "the address {:?} cannot be used; expected redis://host:port, rediss://host:port with \
             feature `tls-rustls`, or unix:///path, with special characters of a password \
             percent-encoded",
            without_credentials(url)
        );
        StoreError::new(StoreErrorKind::Config, message).with_source(error)
    };
    let info = url.into_connection_info().map_err(unusable)?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = info.tcp_settings().clone().set_nodelay(true).set_keepalive(KEEPALIVE);
    if matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
        prepare_tls()?;
    }
    Client::open(info.set_redis_settings(settings).set_tcp_settings(tcp)).map_err(unusable)
}

#[cfg(feature = "tls-rustls")]
fn prepare_tls() -> Result<(), StoreError> {
    // Already installed by the program: its choice stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

/// Refused here even if another crate has switched on the client library's TLS: without a crypto
/// provider it would panic.
#[cfg(not(feature = "tls-rustls"))]
fn prepare_tls() -> Result<(), StoreError> {
    let message = "`rediss://` needs the feature `tls-rustls` of lock-runtime";
    Err(StoreError::new(StoreErrorKind::Config, message))
}

/// The address with everything before the host and after the path left out, because it may be a
/// password. A password's own `#`, `?` or `/` must not end the search for its `@`.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (hidden, shown) = match rest.rsplit_once('@') {
        Some((_, host)) => ("…@", host),
        None => ("", rest),
    };
    let shown = shown.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{hidden}{shown}")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
            let AcquireRequest { target, owner, lease, tokens, timeout } = request;
            let mut call = MUTEX_ACQUIRE.call(2);
            call.arg(target.key().as_str()).arg(target.fence_counter());
            call.arg(owner.as_field()).arg(millis(lease)).arg(tokens).arg(millis(COUNTER_EXPIRY));
            match self.run(&MUTEX_ACQUIRE, &call, timeout).await? {
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
            let mut call = RENEW.call(requests.len());
            for request in &requests {
                call.arg(request.target.key().as_str());
            }
            for request in &requests {
                call.arg(request.owner.as_field()).arg(millis(request.lease));
            }
            match self.run(&RENEW, &call, timeout).await? {
                Value::Array(held) if held.len() == requests.len() => {
                    held.iter().map(ownership).collect()
                }
                other => Err(surprise(&other)),
            }
        })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        Box::pin(async move {
            let ReleaseRequest { target, owner, timeout } = request;
            let mut call = MUTEX_RELEASE.call(1);
            call.arg(target.key().as_str()).arg(owner.as_field()).arg(target.channel());
            let answer = self.run(&MUTEX_RELEASE, &call, timeout).await.map_err(StoreError::from);
            match answer {
                Ok(Value::Int(-1)) => Ok(ReleaseReply::NotOwner),
                Ok(Value::Int(told)) => {
                    let ourselves = i64::from(self.link.hears(target.channel()));
                    Ok(ReleaseReply::Released { others_waiting: told > ourselves })
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
            let mut call = SHOW_COUNT.call(requests.len());
            for request in &requests {
                call.arg(request.target.key().as_str());
            }
            for CountRequest { owner, count, .. } in &requests {
                call.arg(owner.as_field()).arg(count);
            }
            self.run(&SHOW_COUNT, &call, timeout).await?;
            Ok(())
        })
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        Box::pin(async move {
            self.link.ensure_task();
            let (notices, listener) = self.link.channels.listen(target.channel());
            self.link.subscribe(target.channel(), Instant::now() + timeout).await?;
            Ok(Subscription::new(notices, listener))
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
