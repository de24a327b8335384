//! Stores on the master that sentinels name.

use super::RedisStore;
use super::endpoint::sentinel::Sentinels;
use super::endpoint::sentinel::address::{self as names, Master, ToClient};
use super::server::address;
use crate::error::StoreError;
#[cfg(feature = "tls-rustls")]
use crate::store::redis::TlsOptions;
use crate::store::redis::endpoint::Endpoint;

impl RedisStore {
    /// Connects to the master that Redis Sentinel names, and follows it through fail-overs.
    ///
    /// `master` is the name that the sentinels have for it or, where it wants credentials, another
    /// database or TLS, an address with the name in place of a host and without a port:
    /// `redis://user:password@locks/2`, `rediss://locks`. `nodes` are the addresses of the sentinels, all
    /// of them at best: `redis://[user:password@]host[:port]`, with the *sentinels'* credentials, or
    /// `rediss://`; the port is 26379 if none is said. Over `rediss://` a server's certificate must be for
    /// the address that the sentinels announce, which is an IP address unless they were told
    /// `sentinel announce-hostnames yes`.
    ///
    /// All sentinels are asked at once whenever a connection is made, and about once a second while it
    /// lasts; the answer with the highest configuration epoch counts, and the server has to say itself
    /// that it is a master. An idle master is asked for a sign of life once a second, or more often if the
    /// sentinels are set to replace it after less than eight seconds of silence. They need `+sentinel|master +sentinel|get-master-addr-by-name`, and for quick
    /// news `+subscribe` and the channels `+switch-master` and `+promoted-slave`.
    ///
    /// # What a fail-over does to locks
    ///
    /// The connection is given up as soon as a sentinel names another master, also if the old one still
    /// answers, and before that if the master is silent for so long that the sentinels may replace it
    /// (their `down-after-milliseconds`; give it a second at least); what was under way on it counts as unknown and is asked for again. Waiters go on at the
    /// new master. Callers wait for it as for any store that is away, within
    /// [`store_patience`](crate::LockClientBuilder::store_patience): give it more than a fail-over takes.
    ///
    /// Redis replicates asynchronously, so the new master may not know of the last locks that the old one
    /// granted. Their holders learn so from their next renewal, a third of the lease later at most
    /// ([`LossCause::NotOwner`](crate::LossCause::NotOwner)); somebody else may have the lock by then. And an old
    /// master that is cut off may grant locks until it hears that it was replaced, to clients that
    /// are cut off with it. Against that, from cheap to certain:
    ///
    /// - `min-replicas-to-write 1` and a low `min-replicas-max-lag` on the servers: a master that is alone
    ///   stops to grant;
    /// - [`replicas`](crate::LockOptionsBuilder::replicas): a lock counts once a replica knows of it, and
    ///   Sentinel promotes one that is up to date if there is any;
    /// - [fencing tokens](crate::FencingToken), checked by the resource: they grow across a fail-over, so
    ///   whoever held the lock before is refused.
    ///
    /// # Errors
    ///
    /// At once, by [`StoreError::kind`]: `Config` if an address cannot be used, no sentinel knows the name,
    /// or what answers is none; `Unavailable` if no sentinel or not the master can be reached; `NotReady` if
    /// the server is no master, as in the middle of a fail-over; `Denied` if sentinels or master refuse the
    /// credentials. Once connected, it goes on for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::{LockClient, RedisStore};
    /// use std::time::Duration;
    ///
    /// let sentinels = ["redis://one:26379", "redis://two:26379", "redis://three:26379"];
    /// let store = RedisStore::connect_sentinel("redis://:secret@locks", sentinels).await?;
    /// let client = LockClient::builder().store_patience(Duration::from_secs(30)).store(store)?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_sentinel<U: AsRef<str>>(
        master: &str,
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<Self, StoreError> {
        Self::open(source(master, nodes, &address::client)?).await
    }

    /// As [`connect_sentinel`](Self::connect_sentinel), with a private authority or a client certificate,
    /// for sentinels and master alike: all addresses have to be `rediss://`.
    ///
    /// # Errors
    ///
    /// As [`connect_sentinel`](Self::connect_sentinel); `Config` as well if `tls` cannot be used or an
    /// address is not one of TLS.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::{RedisStore, TlsOptions};
    ///
    /// let tls = TlsOptions::new().root_certificate(std::fs::read("ca.pem")?);
    /// let sentinels = ["rediss://one", "rediss://two", "rediss://three"];
    /// let store = RedisStore::connect_sentinel_with_tls("rediss://locks", sentinels, &tls).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub async fn connect_sentinel_with_tls<U: AsRef<str>>(
        master: &str,
        nodes: impl IntoIterator<Item = U>,
        tls: &TlsOptions,
    ) -> Result<Self, StoreError> {
        Self::open(source(master, nodes, &|url| address::client_with_tls(url, tls))?).await
    }
}

fn source<U: AsRef<str>>(
    master: &str,
    nodes: impl IntoIterator<Item = U>,
    to_client: ToClient<'_>,
) -> Result<Endpoint, StoreError> {
    let master = Master::parse(master, to_client)?;
    let nodes = names::nodes(nodes, to_client)?;
    Ok(Sentinels::new(master, nodes).into())
}
