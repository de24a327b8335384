//! A store in this process's memory: for tests, examples and single-process programs.
//!
//! Same requests, same answers as Redis, on tokio's clock, so that tests can pause it.
//! `table` holds the rules, without a runtime; this file adds the lock around it, notices and
//! the clock.

mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use self::table::Table;
use super::{
    AcquireReply, AcquireRequest, CountRequest, Ownership, ReleaseReply, ReleaseRequest,
    RenewRequest, Store, StoreFuture, Subscription, Target,
};
use crate::clock::Clock;
use crate::fence::FencingToken;

/// Keeps locks in this process's memory.
///
/// A clone is the same process's view; [`peer`](Self::peer) makes another process's view of the
/// same locks, so that a test can have several clients compete.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, MemoryStore};
///
/// let store = MemoryStore::new();
/// let one = LockClient::builder().store(store.clone())?;
/// let other = LockClient::builder().store(store.peer())?;
/// let guard = one.mutex("job").lock().await?;
/// assert!(other.mutex("job").try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// Which process this view belongs to.
    process: u64,
}

struct Shared {
    clock: Clock,
    processes: AtomicU64,
    table: Mutex<Table>,
    channels: Mutex<HashMap<String, Channel>>,
}

struct Channel {
    notices: watch::Sender<u64>,
    /// Subscriptions per process.
    listeners: HashMap<u64, usize>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared {
            clock: Clock::tokio(),
            processes: AtomicU64::new(1),
            table: Mutex::default(),
            channels: Mutex::default(),
        };
        Self { shared: Arc::new(shared), process: 0 }
    }

    /// Another process's view of the same locks.
    #[must_use]
    pub fn peer(&self) -> Self {
        let process = self.shared.processes.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared), process }
    }

    /// The lock as `HGETALL` and `PTTL` would show it: hold counts by owner, and what is left of
    /// the lease. Empty and zero when nobody holds it.
    #[must_use]
    pub fn holders(&self, key: &str) -> (Vec<(String, u32)>, Duration) {
        self.table().holders(key, self.shared.clock.now())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.shared.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells every listener; says whether another process was among them.
    fn publish(&self, channel: &str) -> bool {
        let channels = self.channels();
        let Some(channel) = channels.get(channel) else { return false };
        channel.notices.send_modify(|notices| *notices += 1);
        channel.listeners.keys().any(|process| *process != self.process)
    }

    fn listen(&self, target: &Target) -> Subscription {
        let mut channels = self.channels();
        let channel = channels.entry(target.channel().to_owned()).or_insert_with(|| Channel {
            notices: watch::Sender::new(0),
            listeners: HashMap::new(),
        });
        *channel.listeners.entry(self.process).or_default() += 1;
        let notices = channel.notices.subscribe();
        let registration = Listener { store: self.clone(), channel: target.channel().to_owned() };
        Subscription::new(notices, registration)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("process", &self.process).finish_non_exhaustive()
    }
}

/// A live subscription's entry in the channel list.
struct Listener {
    store: MemoryStore,
    channel: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut channels = self.store.channels();
        let Some(channel) = channels.get_mut(&self.channel) else { return };
        if let Some(count) = channel.listeners.get_mut(&self.store.process) {
            *count -= 1;
            if *count == 0 {
                channel.listeners.remove(&self.store.process);
            }
        }
        if channel.listeners.is_empty() {
            channels.remove(&self.channel);
        }
    }
}

impl Store for MemoryStore {
    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        if request.target.kind() != crate::store::LockKind::Mutex {
            return crate::store::unsupported("this kind of lock yet");
        }
        Box::pin(async move {
            let reply = self.table().acquire(&request, self.shared.clock.now());
            Ok(match reply {
                Ok(first) => AcquireReply::Granted(FencingToken::new(first)),
                Err(remaining) => AcquireReply::Held(Some(remaining)),
            })
        })
    }

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        _timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        Box::pin(async move {
            let (mut table, now) = (self.table(), self.shared.clock.now());
            Ok(requests.iter().map(|request| table.renew(request, now)).collect())
        })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        Box::pin(async move {
            let released = self.table().release(&request, self.shared.clock.now());
            Ok(match released {
                Ownership::NotOwner | Ownership::Unknown => ReleaseReply::NotOwner,
                Ownership::Owner => ReleaseReply::Released {
                    others_waiting: self.publish(request.target.channel()),
                },
            })
        })
    }

    fn show_counts(&self, requests: Vec<CountRequest>, _timeout: Duration) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (mut table, now) = (self.table(), self.shared.clock.now());
            requests.iter().for_each(|request| table.show_count(request, now));
            Ok(())
        })
    }

    fn subscribe(&self, target: &Arc<Target>, _timeout: Duration) -> StoreFuture<'_, Subscription> {
        let subscription = self.listen(target);
        Box::pin(async move { Ok(subscription) })
    }

    fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }
}
