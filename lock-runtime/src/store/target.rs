//! Targets: the locks of a request.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::client_id::is_ours;
use super::kind::HoldKind;
use super::owner::OwnerId;
use crate::key::{LockKey, companion};
use crate::options::{DEFAULT_TOKEN_TTL, Replicas};

/// A lock as the store sees it: its kind, its key, and the companions derived from the key once.
///
/// Two targets are the same lock if kind and key are equal, and the limit of a semaphore: waiters with an old limit and with
/// a new one are in lines of their own, or the permits that only the new one adds would wait for the old. Replicas only
/// describe how a lock is used.
#[derive(Clone)]
pub struct Target {
    kind: HoldKind,
    key: LockKey,
    /// The key of the fencing counter, and the channel behind it: every lock has both, and each acquire makes them.
    names: Box<str>,
    /// Where the channel begins.
    channel_at: u32,
    limit: u32,
    companions: Box<[String]>,
    token_ttl: Duration,
    /// Hashed once: the queues look it up several times for each lock.
    hash: u64,
    /// For one waiter of a fair lock, its number in the messages on the channel.
    waiter: Option<NonZeroU64>,
    /// What few locks have: most are kept in less memory without the room for it.
    more: Option<Box<More>>,
}

/// Parts and conditions of a lock.
#[derive(Clone, Default)]
struct More {
    /// For a waiter behind clients of Redisson, the channel on which these notify it.
    own_channel: Option<String>,
    members: Vec<Arc<Target>>,
    replicas: Option<Replicas>,
}

impl Target {
    fn new(kind: HoldKind, key: LockKey, channel: &str, companions: Vec<String>) -> Self {
        let counter = key.fence_counter();
        let names = [&counter, channel].concat();
        Self::named(kind, key, (names.into(), counter.len()), companions)
    }

    /// As [`new`](Self::new), with the fencing counter and the channel in one piece, and where the channel begins.
    fn named(
        kind: HoldKind,
        key: LockKey,
        (names, channel_at): (Box<str>, usize),
        companions: Vec<String>,
    ) -> Self {
        Self {
            kind,
            names,
            channel_at: channel_at as u32,
            waiter: None,
            limit: 1,
            companions: companions.into(),
            token_ttl: DEFAULT_TOKEN_TTL,
            hash: HASHING.hash_one((kind, &key)),
            more: None,
            key,
        }
    }

    /// Returns the same lock with this channel.
    fn with_channel(mut self, channel: &str) -> Self {
        self.names = [self.fence_counter(), channel].concat().into();
        self
    }

    /// Returns the same lock with changed parts or conditions.
    fn with_more(mut self, change: impl FnOnce(&mut More)) -> Self {
        change(self.more.get_or_insert_default());
        self
    }

    /// Returns the mutex of that name.
    ///
    /// # Examples
    ///
    /// Clients create targets and owners; if you write a [`Store`](crate::store::Store), create them to test
    /// it:
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::store::{
    ///     AcquireReply, AcquireRequest, MemoryStore, OwnerId, Store, Target,
    /// };
    /// use lock_runtime::LockKey;
    /// use std::time::Duration;
    ///
    /// let (store, target) = (MemoryStore::new(), Target::mutex(LockKey::new("job")?));
    /// let (lease, timeout) = (Duration::from_secs(10), Duration::from_secs(1));
    /// let request = |hold| {
    ///     AcquireRequest::new(target.clone(), OwnerId::new("8f1c", hold, 1), lease, timeout)
    /// };
    /// assert!(matches!(store.acquire(request(1)).await?, AcquireReply::Granted(_)));
    /// assert!(matches!(store.acquire(request(2)).await?, AcquireReply::Held(Some(_))));
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn mutex(key: LockKey) -> Arc<Self> {
        let names = key.two_companions(companion::FENCE_COUNTER, companion::MUTEX_CHANNEL);
        Arc::new(Self::named(HoldKind::Mutex, key, names, Vec::new()))
    }

    /// Returns the fair mutex of that name. Its waiters subscribe to [`for_waiter`](Self::for_waiter).
    pub fn fair(key: LockKey) -> Arc<Self> {
        let channel = key.mutex_channel();
        let companions = vec![
            key.companion(companion::FAIR_QUEUE),
            key.companion(companion::FAIR_TIMEOUTS),
            channel.clone(),
        ];
        Arc::new(Self::new(HoldKind::Fair, key, &channel, companions))
    }

    /// Returns the read side of the read/write lock of that name.
    pub fn read(key: LockKey) -> Arc<Self> {
        Self::side(HoldKind::Read, key)
    }

    /// Returns the write side of the read/write lock of that name.
    pub fn write(key: LockKey) -> Arc<Self> {
        Self::side(HoldKind::Write, key)
    }

    /// Returns one side of a read/write lock: [`HoldKind::Read`] or [`HoldKind::Write`].
    pub(crate) fn side(kind: HoldKind, key: LockKey) -> Arc<Self> {
        let channel = key.companion(companion::SIDES_CHANNEL);
        let companions = vec![
            key.companion(companion::WRITERS),
            key.companion(companion::READERS),
            key.companion(companion::DUE_READERS),
            key.hash_tag(),
        ];
        Arc::new(Self::new(kind, key, &channel, companions))
    }

    /// Returns the semaphore of that name, with this limit.
    pub fn semaphore(key: LockKey, limit: NonZeroU32) -> Arc<Self> {
        let channel = key.companion(companion::SEMAPHORE_CHANNEL);
        let companions = vec![key.permits()];
        let target = Self::new(HoldKind::Semaphore, key, &channel, companions);
        let (limit, hash) = (limit.get(), HASHING.hash_one((target.hash, limit)));
        Arc::new(Self { limit, hash, ..target })
    }

    /// Returns the count-down latch of that name.
    pub fn latch(key: LockKey) -> Arc<Self> {
        let channel = key.latch_channel();
        let companions = vec![key.permits()];
        Arc::new(Self::new(HoldKind::Latch, key, &channel, companions))
    }

    /// Returns the same latch with a channel that is in the slot of its name, whatever the name is.
    // S-2.
    #[cfg(feature = "redis")]
    pub(crate) fn with_own_channel(&self) -> Self {
        self.clone().with_channel(&self.key.companion(companion::LATCH_CHANNEL))
    }

    /// Returns several locks as one. `members` are sorted and differ. A store acquires only mutexes together: members of other kinds
    /// or clients are acquired in turn, and this is then the name of all of them.
    pub(crate) fn multi(members: Vec<Arc<Target>>) -> Arc<Self> {
        let key = LockKey::joined(members.iter().map(|member| member.key()));
        let target = Self::new(HoldKind::Multi, key, "", Vec::new());
        Arc::new(target.with_more(|more| more.members = members))
    }

    /// True if a hold may pass from one local task to the next. False for a fair mutex, whose queue is in the
    /// store.
    // S-14, S-26, S-27.
    pub(crate) fn is_handed_on(&self) -> bool {
        matches!(self.kind, HoldKind::Mutex | HoldKind::Write | HoldKind::Multi)
    }

    /// True if several owners can hold it at once, each with a hold of its own.
    pub(crate) fn is_shared(&self) -> bool {
        self.kind == HoldKind::Semaphore
    }

    /// Returns the mutexes of these names as one lock; `None` if there are no names. A duplicate name counts
    /// once.
    // S-28.
    pub fn several(keys: impl IntoIterator<Item = LockKey>) -> Option<Arc<Self>> {
        let keys: BTreeSet<LockKey> = keys.into_iter().collect();
        keys.first()?;
        Some(Self::multi(keys.into_iter().map(Self::mutex).collect()))
    }

    /// Returns the same lock for one waiter of a fair lock, which is notified only of its own turn. All waiters of a
    /// client share a [`channel`](Self::channel); a message there has the number of the [`waiter`](Self::waiter).
    // S-26.
    #[must_use]
    pub fn for_waiter(&self, owner: &OwnerId) -> Self {
        if self.kind != HoldKind::Fair {
            return self.clone();
        }
        match owner.client_and_number() {
            (client, number) if is_ours(client) => {
                let target = self.clone().with_channel(&waiter_channel(&self.companions, client));
                Self { waiter: NonZeroU64::new(number), ..target }
            }
            // Scripts take it for a waiter of Redisson.
            _ => self.clone().with_channel(&waiter_channel(&self.companions, owner.as_field())),
        }
    }

    /// Returns the same lock for one waiter of a fair lock that waits [behind Redisson](super::AcquireReply): it listens
    /// to a channel of its own as well.
    // S-26.
    pub(crate) fn for_waiter_behind_redisson(&self, owner: &OwnerId) -> Self {
        let own_channel = waiter_channel(&self.companions, owner.as_field());
        self.for_waiter(owner).with_more(|more| more.own_channel = Some(own_channel))
    }

    /// Returns the same lock, acquired only if replicas confirm it.
    // S-31.
    #[must_use]
    pub fn with_replicas(&self, replicas: Option<Replicas>) -> Self {
        self.clone().with_more(|more| more.replicas = replicas)
    }

    /// Returns the same lock with a fencing counter that outlives its last use for this long.
    pub(crate) fn with_token_ttl(mut self: Arc<Self>, token_ttl: Duration) -> Arc<Self> {
        if self.token_ttl != token_ttl {
            Arc::make_mut(&mut self).token_ttl = token_ttl;
        }
        self
    }

    /// Returns a hash of kind and key, valid in this process.
    pub(crate) fn hashed(&self) -> u64 {
        self.hash
    }

    /// Returns the kind of lock.
    #[must_use]
    pub fn kind(&self) -> HoldKind {
        self.kind
    }

    /// Returns the lock's name, which is its key in Redis.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// Returns the channel on which its releases are published. Empty for several locks at once, whose members
    /// have one each.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.names.get(self.channel_at as usize..).unwrap_or_default()
    }

    /// Returns the number that a message on the [`channel`](Self::channel) has if it is for this waiter of a fair lock.
    /// `None` if every message is.
    // S-26.
    #[must_use]
    pub fn waiter(&self) -> Option<u64> {
        self.waiter.map(NonZeroU64::get)
    }

    /// Returns a second channel to listen to: the one on which clients of Redisson notify this waiter of a fair lock.
    /// `None` unless it waits behind such clients.
    // S-26.
    #[must_use]
    pub fn own_channel(&self) -> Option<&str> {
        self.more.as_ref()?.own_channel.as_deref()
    }

    /// Returns the channels to listen to, each with the number in the messages for this waiter.
    #[cfg(feature = "redis")]
    pub(crate) fn channels(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        let own = self.own_channel().map(|own| (own, None));
        [(self.channel(), self.waiter())].into_iter().chain(own)
    }

    /// Returns the key of its fencing counter.
    #[must_use]
    pub fn fence_counter(&self) -> &str {
        self.names.get(..self.channel_at as usize).unwrap_or_default()
    }

    /// Returns further keys and prefixes that belong to the name, by kind. Fair: the queue, the timeouts of its
    /// members, the prefix of their channels. Read and write: the waiting writers, the waiting readers, the due
    /// readers among them, the prefix of the readers' timeouts. Semaphore, and latch to distinguish it from
    /// one: the timeouts of its permits.
    #[must_use]
    pub fn companions(&self) -> &[String] {
        &self.companions
    }

    /// Returns the members, for [`HoldKind::Multi`]; otherwise empty.
    #[must_use]
    pub fn members(&self) -> &[Arc<Target>] {
        self.more.as_ref().map_or(&[], |more| &more.members)
    }

    /// Returns its members, or just itself.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &Self> {
        let members = self.members();
        members.is_empty().then_some(self).into_iter().chain(members.iter().map(|lock| &**lock))
    }

    /// Returns the limit, for [`HoldKind::Semaphore`].
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns how long the store keeps the name's fencing counter after its last use.
    #[must_use]
    pub fn token_ttl(&self) -> Duration {
        self.token_ttl
    }

    /// Returns how many replicas must acknowledge a hold before it counts, if any.
    #[must_use]
    pub fn replicas(&self) -> Option<Replicas> {
        self.more.as_ref()?.replicas
    }
}

/// Returns the channel of one waiter of a fair lock, or of all waiters of a client, from the lock's companions.
pub(crate) fn waiter_channel(companions: &[String], owner: &str) -> String {
    let prefix = companions.last().map_or("", String::as_str);
    [prefix, ":", owner].concat()
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the channel: that of a fair lock's waiter contains its owner.
        f.debug_struct("Target")
            .field("kind", &self.kind)
            .field("key", &self.key)
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        // Mostly a target is compared with itself, in a map.
        std::ptr::eq(self, other)
            || self.hash == other.hash
                && self.kind == other.kind
                && self.key == other.key
                && self.limit == other.limit
    }
}

impl Eq for Target {}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Seeded anew in each process, so that clients cannot choose names that collide.
static HASHING: LazyLock<RandomState> = LazyLock::new(RandomState::new);
