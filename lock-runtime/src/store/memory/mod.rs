//! A store in this process's memory: for tests, examples and single-process programs.
//!
//! Same requests and answers as Redis, on tokio's clock, so that tests can pause it. `table` has the rules,
//! without a runtime; this file adds the mutex around it, the clock, and the notifications, which are sent
//! after the mutex is unlocked.

mod table;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use self::table::{Change, Table};
use super::{
    AcquireReply, AcquireRequest, Callbacks, Inspection, LatchRequest, Listening, NamesCursor,
    NamesPage, OnMessage, Ownership, ReleaseReply, ReleaseRequest, RenewRequest, Store,
    StoreFuture, Subscription, Target, not_listened,
};
use crate::clock::Clock;
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::opaque::opaque_debug;

/// The maximum number of names in a page.
const PAGE: usize = 256;

/// A store that keeps locks in this process's memory.
///
/// Clones share their locks, and each client of one acts as another process, so that a test can have several clients
/// compete.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, MemoryStore};
///
/// let store = MemoryStore::new();
/// let one = LockClient::builder().memory(store.clone())?;
/// let other = LockClient::builder().memory(store)?;
/// let guard = one.mutex("job").lock().await?;
/// assert!(other.mutex("job").try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    /// How many replicas acknowledge a hold.
    replicas: AtomicU32,
    table: Mutex<Table>,
    channels: Mutex<HashMap<String, Channel>>,
}

#[derive(Default)]
struct Channel {
    notices: watch::Sender<u64>,
    listeners: usize,
    /// The functions that receive the messages of a channel that no lock uses.
    callbacks: Arc<Callbacks>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared {
            clock: Clock::tokio(),
            replicas: AtomicU32::new(u32::MAX),
            table: Mutex::default(),
            channels: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns a clone, for the client of another process.
    #[must_use]
    pub fn peer(&self) -> Self {
        self.clone()
    }

    /// Simulates that this many replicas acknowledge each hold, to test holds that too few acknowledge. A store
    /// in memory has no replicas and no failover: without this, any number counts as reached.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::options::Replicas;
    /// use lock_runtime::{LockClient, LockError, LockOptions, MemoryStore};
    /// use std::time::Duration;
    ///
    /// let store = MemoryStore::new();
    /// store.set_replicas(1);
    /// let client = LockClient::builder().memory(store)?;
    /// let two = LockOptions::new().replicas(Replicas::new(2, Duration::from_millis(100)));
    /// let refused = client.mutex("job").with(two).try_lock().await;
    /// assert!(matches!(refused, Err(LockError::NotReplicated { acked: 1, wanted: 2, .. })));
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    // S-31.
    pub fn set_replicas(&self, replicas: u32) {
        self.shared.replicas.store(replicas, Ordering::Relaxed);
    }

    /// Returns the lock as `HGETALL` and `PTTL` would show it: hold counts by owner, and the time left of the
    /// lease. For a semaphore, permits by owner and the longest lease. Empty and zero if it is not held.
    #[must_use]
    pub fn holders(&self, key: &str) -> (Vec<(String, u32)>, Duration) {
        self.shared.table.lock().holders(key, self.shared.clock.now())
    }

    /// Changes the table, and then notifies the listeners. Also returns how many listeners there were.
    fn change<T>(&self, rule: impl FnOnce(&mut Table, &mut Change) -> T) -> (T, u32) {
        let (reply, notify) = {
            let mut table = self.shared.table.lock();
            let mut change = Change::at(self.shared.clock.now());
            (rule(&mut table, &mut change), change.notify)
        };
        let notify_first = |channels: &Vec<String>| {
            channels.iter().map(|channel| self.notify(channel)).find(|told| *told > 0)
        };
        let told = notify.iter().filter_map(notify_first).sum();
        (reply, told)
    }

    /// Notifies every listener and returns their number. The releasing task was at the front of its queue, and the tasks
    /// behind it do not listen, so any listener is another contender.
    // S-14.
    fn notify(&self, channel: &str) -> u32 {
        let found = {
            let channels = self.shared.channels.lock();
            channels.get(channel).map(|channel| (channel.notices.clone(), channel.listeners))
        };
        let Some((notices, listeners)) = found else { return 0 };
        // After the unlock: the waker of a listener may end another subscription.
        notices.send_modify(|notices| *notices += 1);
        u32::try_from(listeners).unwrap_or(u32::MAX)
    }

    fn subscribe_to(&self, target: &Target) -> Subscription {
        // The table notifies each waiter on a channel of its own, as there is no cost of subscribing here.
        let name = match target.waiter() {
            Some(number) => format!("{}:{number}", target.channel()),
            None => target.channel().to_owned(),
        };
        let (notices, listener) = self.join(name, |channel| channel.notices.subscribe());
        Subscription::new(notices, listener)
    }

    fn callbacks(&self, channel: &str) -> Option<Arc<Callbacks>> {
        let channels = self.shared.channels.lock();
        channels.get(channel).map(|channel| Arc::clone(&channel.callbacks))
    }

    /// Joins the listeners of a channel.
    fn join<T>(&self, name: String, take: impl FnOnce(&Channel) -> T) -> (T, Listener) {
        let mut channels = self.shared.channels.lock();
        let channel = channels.entry(name.clone()).or_default();
        channel.listeners += 1;
        (take(channel), Listener { store: self.clone(), channel: name })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

opaque_debug!(MemoryStore);

/// A live subscription's entry in the channel list.
struct Listener {
    store: MemoryStore,
    channel: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut channels = self.store.shared.channels.lock();
        let Some(channel) = channels.get_mut(&self.channel) else { return };
        channel.listeners -= 1;
        if channel.listeners == 0 {
            channels.remove(&self.channel);
        }
    }
}

impl Store for MemoryStore {
    fn ping(&self, _: Duration) -> StoreFuture<'_, ()> {
        StoreFuture::new(std::future::ready(Ok(())))
    }

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        StoreFuture::new(async move {
            let (reply, _) = self.change(|table, change| table.acquire(&request, change));
            let acked = self.shared.replicas.load(Ordering::Relaxed);
            match (reply?, request.target.replicas()) {
                (AcquireReply::Granted(_), Some(wanted)) if acked < wanted.acks => {
                    Ok(AcquireReply::NotReplicated { acked })
                }
                (reply, _) => Ok(reply),
            }
        })
    }

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        _timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        StoreFuture::new(async move {
            let (mut table, now) = (self.shared.table.lock(), self.shared.clock.now());
            Ok(requests.iter().map(|request| table.renew(request, now)).collect())
        })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        StoreFuture::new(async move {
            let (released, told) = self.change(|table, change| table.release(&request, change));
            // A listener that waits for several locks at once was notified of each.
            let locks = u32::try_from(request.target.locks().count()).unwrap_or(u32::MAX);
            let others = if request.keep.is_zero() { told.div_ceil(locks) } else { 0 };
            Ok(match released? {
                Ownership::Owner => ReleaseReply::Released { others },
                Ownership::NotOwner | Ownership::Unknown => ReleaseReply::NotOwner,
            })
        })
    }

    fn subscribe(&self, target: &Arc<Target>, _timeout: Duration) -> StoreFuture<'_, Subscription> {
        let subscription = Subscription::any_of(target.locks().map(|lock| self.subscribe_to(lock)));
        StoreFuture::new(async move { Ok(subscription) })
    }

    fn listen(&self, channel: &str, on_message: OnMessage) -> Listening {
        Listening::new(self.join(channel.to_owned(), |channel| channel.callbacks.add(on_message)))
    }

    fn listened(&self, channel: &str, _timeout: Duration) -> StoreFuture<'_, ()> {
        let listened = match self.callbacks(channel).is_some_and(|callbacks| !callbacks.is_empty())
        {
            true => Ok(()),
            false => Err(not_listened()),
        };
        StoreFuture::new(std::future::ready(listened))
    }

    /// Calls every function before it answers, and returns how many there are.
    fn publish(&self, channel: &str, message: &[u8], _timeout: Duration) -> StoreFuture<'_, u32> {
        let (callbacks, message) = (self.callbacks(channel), message.to_vec());
        StoreFuture::new(
            async move { Ok(callbacks.map_or(0, |callbacks| callbacks.call(&message))) },
        )
    }

    fn latch(
        &self,
        target: &Arc<Target>,
        request: LatchRequest,
        _timeout: Duration,
    ) -> StoreFuture<'_, u64> {
        let target = Arc::clone(target);
        StoreFuture::new(async move {
            self.change(|table, change| table.latch(&target, request, change)).0
        })
    }

    fn inspect(&self, key: &LockKey, _timeout: Duration) -> StoreFuture<'_, Inspection> {
        let key = key.clone();
        StoreFuture::new(async move {
            Ok(self.shared.table.lock().inspect(&key, self.shared.clock.now()))
        })
    }

    fn force_release(&self, key: &LockKey, timeout: Duration) -> StoreFuture<'_, bool> {
        self.force_release_from(key, &[], timeout)
    }

    fn force_release_from(
        &self,
        key: &LockKey,
        clients: &[String],
        _timeout: Duration,
    ) -> StoreFuture<'_, bool> {
        let (key, clients) = (key.clone(), clients.to_vec());
        StoreFuture::new(async move {
            Ok(self.change(|table, change| table.force_release(&key, &clients, change)).0)
        })
    }

    fn names(
        &self,
        prefix: &str,
        from: NamesCursor,
        _timeout: Duration,
    ) -> StoreFuture<'_, NamesPage> {
        let prefix = prefix.to_owned();
        StoreFuture::new(async move {
            let after = from.place::<LockKey>()?;
            let names =
                self.shared.table.lock().names(&prefix, after, PAGE, self.shared.clock.now());
            let next = (names.len() == PAGE).then(|| names.last().cloned()).flatten();
            Ok(NamesPage::new(names, next.map(NamesCursor::at)))
        })
    }

    fn raise_token(
        &self,
        target: &Arc<Target>,
        token: FencingToken,
        _timeout: Duration,
    ) -> StoreFuture<'_, ()> {
        let target = Arc::clone(target);
        StoreFuture::new(async move {
            self.shared.table.lock().raise_token(&target, token, self.shared.clock.now());
            Ok(())
        })
    }

    fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }
}
