//! [`MultiLock`]: several locks at once, all or none.
// S-28.

use std::sync::Arc;

use crate::acquire::{Acquire, AcquireSpec, Engine, Handle, Part, Run, TryRun, lock_options};
use crate::error::LockError;
use crate::fair_mutex::FairMutex;
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::mutex::Mutex;
use crate::options::{LockOptions, MAX_MULTI_NAMES};
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;
use crate::store::{HoldKind, Target};

/// Several locks as one: acquired all together or not at all, and released all together.
///
/// Create it from names with [`LockClient::multi_lock`](crate::LockClient::multi_lock): it then locks the
/// mutexes of those names, with one command for the acquire and one for the release, so that no other client
/// ever sees half of them locked. Or create it from any locks, even of several clients, with [`MultiLock::of`].
///
/// It never holds one lock while it waits for another, so two that name the same locks in opposite orders
/// cannot deadlock. The price: it succeeds only when all locks are free at once, and may wait long next to a
/// steady stream of holders of single locks.
///
/// Inside [`run`](LockGuard::run) of a multi lock, each of its locks is re-entered at once; but permits are
/// counted, and more of them are acquired or waited for. Two concurrent re-entries wait for each other if they
/// name the same lock. Nested calls that acquire its locks one inside the other must use the same order as
/// concurrent calls, or they wait for each other for as long as their `wait` allows.
///
/// It has at most [`MAX_MULTI_NAMES`] locks: one command acquires, renews or releases all of them, and every
/// other client waits while the server runs it.
///
/// The reverse, acquiring more locks than the enclosing hold has, would wait for itself and fails with
/// [`LockError::WouldDeadlock`].
///
/// # Examples
///
/// ```
/// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
/// let (from, to) = ("account:7", "account:9");
/// let guard = client.multi_lock([from, to]).lock().await?;
/// guard.run(async { /* move money */ }).await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a multi lock does nothing until it is locked"]
pub struct MultiLock(Handle);

lock_options!(MultiLock);

impl MultiLock {
    /// A lock of the mutexes of these names in one client.
    pub(crate) fn of_names(
        engine: &Arc<Engine>,
        names: Result<Vec<LockKey>, LockError>,
        options: Arc<LockOptions>,
    ) -> Self {
        let target = names.and_then(|mut names| {
            names.sort_unstable();
            names.dedup();
            check_count(names.len())?;
            let mut mutexes: Vec<_> = names.into_iter().map(Target::mutex).collect();
            match mutexes.len() {
                0 => Err(no_locks()),
                // A mutex, so that it is the same lock as the mutex in this process too.
                1 => Ok(mutexes.swap_remove(0)),
                _ => Ok(Target::multi(mutexes)),
            }
        });
        Self(Handle::new(engine, target, options))
    }

    /// Combines locks of any kind and client, with the options of the first.
    ///
    /// The mutexes of one client are acquired with one command; the other locks are acquired one after the other. The acquire
    /// waits for one of them, as that lock's own does, and tries the rest; if one is refused, those granted before are released,
    /// and it waits for that one next. A lock that is named twice counts once.
    ///
    /// Each client renews and releases its own locks, and lists them as held by their own names. The guard is lost with the first of
    /// them, and has one fencing token, which grows for each of the locks. Shutting down one of the clients ends the multi lock.
    ///
    /// The same name through two clients is two locks if their servers differ, or if each has a database of its own on
    /// one server. If it is the same lock, which the server is asked, the acquire fails with
    /// [`LockError::WouldDeadlock`]; asking costs a round trip more.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_runtime::{LockClient, LockError};
    /// # async fn example(stock: LockClient, billing: LockClient) -> Result<(), LockError> {
    /// use lock_runtime::{MultiLock, MultiMember};
    ///
    /// let prices = stock.rw_lock("prices");
    /// let both = MultiLock::of([
    ///     billing.mutex("invoice:7").into(),
    ///     MultiMember::read(&prices),
    /// ]);
    /// let guard = both.lock().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(members: impl IntoIterator<Item = MultiMember>) -> Self {
        Self(checked(members).map_or_else(Handle::invalid, joined))
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.0
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self(change(self.0))
    }

    /// Acquires all of them, and waits as long as the options allow; by default for 30 s.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock), and
    ///
    /// - [`LockError::InvalidOptions`] if it has no locks, more than [`MAX_MULTI_NAMES`], two kinds of the same
    ///   name, or different numbers of permits of one semaphore.
    /// - [`LockError::WouldDeadlock`] inside [`run`](LockGuard::run) of only some of its locks, or if it names a lock
    ///   through two clients of one server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. Locks that were granted meanwhile are released in
    /// the background.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Acquires all of them if all are free. Returns `Ok(None)` if not; then it has acquired none.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<Option<LockGuard>> {
        self.0.try_lock()
    }

    /// Acquires all of them, runs `body` under them and releases them: [`lock`](Self::lock), [`LockGuard::run`]
    /// and [`LockGuard::release`] in one call.
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    #[track_caller]
    pub fn run<F: Future>(&self, body: F) -> Run<'static, F> {
        self.0.run(body)
    }

    /// As [`run`](Self::run), for a body that returns a `Result` whose error a [`LockError`] can become: one `?`
    /// for both.
    ///
    /// # Errors
    ///
    /// Those of the body, and those of [`run`](Self::run) as the body's.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    #[track_caller]
    pub fn try_run<F: Future>(&self, body: F) -> TryRun<F> {
        self.0.try_run(body)
    }
}

/// One of the locks of a [`MultiLock`]: created with `into` from a [`Mutex`], a [`FairMutex`] or a
/// [`Semaphore`] (one permit), and by a constructor from the others.
#[derive(Debug, Clone)]
#[must_use = "it is for `MultiLock::of`"]
pub struct MultiMember(Handle);

impl MultiMember {
    /// Returns the read side of a read/write lock.
    pub fn read(lock: &RwLock) -> Self {
        Self(lock.sides().0.clone())
    }

    /// Returns the write side of a read/write lock.
    pub fn write(lock: &RwLock) -> Self {
        Self(lock.sides().1.clone())
    }

    /// Returns that many permits of a semaphore. If they exceed its limit, the acquire reports it.
    pub fn permits(semaphore: &Semaphore, permits: u32) -> Self {
        Self(semaphore.of(permits))
    }
}

impl From<Handle> for MultiMember {
    fn from(handle: Handle) -> Self {
        Self(handle)
    }
}

impl From<Mutex> for MultiMember {
    fn from(mutex: Mutex) -> Self {
        Self(mutex.handle().clone())
    }
}

impl From<FairMutex> for MultiMember {
    fn from(mutex: FairMutex) -> Self {
        Self(mutex.handle().clone())
    }
}

impl From<Semaphore> for MultiMember {
    fn from(semaphore: Semaphore) -> Self {
        Self::permits(&semaphore, 1)
    }
}

/// A valid member.
struct Member {
    handle: Handle,
    engine: Arc<Engine>,
    target: Arc<Target>,
}

impl Member {
    fn home(&self) -> u64 {
        self.engine.leases.id
    }

    fn is(&self, kind: HoldKind) -> bool {
        self.target.kind() == kind
    }
}

/// Returns the members in order, each once, and the options of the one that was named first.
fn checked(
    members: impl IntoIterator<Item = MultiMember>,
) -> Result<(Vec<Member>, Arc<LockOptions>), LockError> {
    let member = |MultiMember(handle)| {
        let AcquireSpec { engine, target, options } = AcquireSpec::clone(handle.spec()?);
        Ok((Member { handle, engine, target }, options))
    };
    let members = members.into_iter().map(member).collect::<Result<Vec<_>, LockError>>()?;
    let (mut members, options): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let Some(options) = options.into_iter().next() else { return Err(no_locks()) };
    // By name first: a client's number differs in each process.
    members.sort_by(|a, b| (a.target.key(), a.home()).cmp(&(b.target.key(), b.home())));
    let permits = |member: &Member| (member.handle.wanted_permits(), member.target.limit());
    members
        .dedup_by(|a, b| a.home() == b.home() && a.target == b.target && permits(a) == permits(b));
    check_count(members.len())?;
    for pair in members.windows(2) {
        if let [a, b] = pair
            && a.home() == b.home()
            && a.target.key() == b.target.key()
        {
            return Err(named_twice(a, b));
        }
    }
    Ok((members, options))
}

fn named_twice(a: &Member, b: &Member) -> LockError {
    let (kind, other) = (a.target.kind(), b.target.kind());
    let as_what = |member: &Member| match member.target.kind() {
        HoldKind::Semaphore if kind == other => format!(
            "{} of {} permits of a semaphore",
            member.handle.wanted_permits(),
            member.target.limit()
        ),
        kind => format!("a {kind}"),
    };
    let (key, a, b) = (a.target.key(), as_what(a), as_what(b));
    LockError::InvalidOptions(format!("a multi lock has {key:?} as {a} and as {b}; name it once"))
}

/// Returns one lock of all members, of which there is at least one.
fn joined((members, options): (Vec<Member>, Arc<LockOptions>)) -> Handle {
    let Member { handle, engine, .. } = &members[0];
    let mut parts = parts(&members);
    if members.len() == 1 {
        return handle.clone().with(options);
    }
    if parts.len() == 1 {
        return Handle::new(engine, Ok(parts.remove(0).target), options);
    }
    let target = Target::multi(members.iter().map(|member| Arc::clone(&member.target)).collect());
    let engine = Arc::clone(engine);
    Handle::in_turn(AcquireSpec { engine, target, options }, parts.into())
}

/// Returns the parts that are acquired one by one: the mutexes of one client are one part.
fn parts(members: &[Member]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, member) in members.iter().enumerate() {
        let together = |other: &&Member| {
            let is_mutex = member.is(HoldKind::Mutex) && other.is(HoldKind::Mutex);
            is_mutex && other.home() == member.home()
        };
        if members[..number].iter().any(|earlier| together(&earlier)) {
            continue;
        }
        let mutexes: Vec<_> = members.iter().filter(together).map(|m| m.target.clone()).collect();
        let target = match mutexes.len() {
            0 | 1 => member.target.clone(),
            _ => Target::multi(mutexes).with_token_ttl(member.engine.leases.timing.token_ttl),
        };
        let (engine, permits) = (Arc::clone(&member.engine), member.handle.wanted_permits());
        parts.push(Part { engine, target, permits });
    }
    parts
}

/// Refuses more locks than one script allows.
fn check_count(count: usize) -> Result<(), LockError> {
    if count <= MAX_MULTI_NAMES {
        return Ok(());
    }
    Err(LockError::InvalidOptions(format!(
        "a multi lock of {count} locks; it can have {MAX_MULTI_NAMES} at most, so lock something that \
         stands for all of them"
    )))
}

fn no_locks() -> LockError {
    LockError::InvalidOptions("a multi lock of no locks; name at least one".to_owned())
}
