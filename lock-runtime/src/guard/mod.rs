//! [`LockGuard`], and the futures that it makes: [`Run`], [`RunOwned`] and [`Release`]. A
//! [`LockWatch`] observes a hold without keeping it.

#[cfg(feature = "blocking")]
mod call;
mod fenced;
mod held;
mod parts;
pub(crate) mod protected;
#[cfg(feature = "redis")]
mod redis_command;
mod release;
mod run;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::task::coop::consume_budget;

pub(crate) use self::held::Held;
#[cfg(feature = "redis")]
pub use self::redis_command::RedisCommand;
pub(crate) use self::release::BoundedRelease;
pub use self::release::Release;
pub use self::run::RunOwned;
pub(crate) use self::run::{Started, Watch};
pub use self::watch::LockWatch;
pub(crate) use self::watch::lost;
pub use crate::acquire::{Run, TryRun};
use crate::error::LockError;
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::lease::Hold;
use crate::lease::reentries::ReentryGuard;
use crate::lease::watched::{Share, Watched};
use crate::options::{OnLost, check_lease};
use crate::owned_hold::OwnedHold;
use crate::scope::{self, Link};

/// A guard that holds a lock until it is released, dropped, or lost.
///
/// The store keeps the lock for a *lease*; the watchdog renews it while the guard lives, unless the lease is
/// fixed. When the lease passes without a confirmed renewal, or the store reports that another owner has the
/// key, the hold is *lost*: from then on the guard protects nothing. Run your code with [`run`](Self::run): it
/// stops the code at that moment.
///
/// Dropping the guard releases the lock in the background, without blocking; [`release`](Self::release) also
/// waits for the answer. The background work ends with the runtime: for a guard that is dropped at the end of
/// `main`, await [`LockClient::shutdown`](crate::LockClient::shutdown) there, or the lock stays held until its
/// lease ends.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
///
/// let client = LockClient::in_memory();
/// let guard = client.mutex("order:42").lock().await?;
/// let total = guard.run(async { 40 + 2 }).await?;
/// guard.release().await?;
/// # assert_eq!(total, 42);
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
// S-12.
#[must_use = "the lock is released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    /// Shared by nested guards; dropping the last one ends it.
    pub(crate) owned: Held,
    pub(crate) on_lost: OnLost,
    /// True if its call is not enforced: its release then does not wait for a slow store.
    pub(crate) is_shadow: bool,
}

impl LockGuard {
    pub(crate) fn outermost(owned: Arc<OwnedHold>, on_lost: OnLost) -> Self {
        Self::of(Held::outermost(owned), on_lost)
    }

    /// The first of several guards that share a hold concurrently. All are counted alike; they may be dropped
    /// in any order.
    pub(crate) fn first_of_many(owned: Arc<OwnedHold>, on_lost: OnLost) -> Self {
        Self::of(Held::first_of_many(owned), on_lost)
    }

    #[inline]
    pub(crate) fn of(owned: Held, on_lost: OnLost) -> Self {
        Self { owned, on_lost, is_shadow: false }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        match &self.owned.parts {
            None => &self.owned.hold,
            Some(parts) => &parts.hold,
        }
    }

    /// Records that this read hold is inside of a write hold. Only for a guard that is alone on its hold, as a
    /// read inside of a write is.
    // S-27.
    pub(crate) fn set_inside(&mut self, inside: ReentryGuard) {
        if let Some(owned) = self.owned.get_mut() {
            owned.inside = Some(Box::new(inside));
        }
    }

    /// Returns its link in the chain of holds and clients that enclose the code under it.
    fn link(&self) -> Arc<Link> {
        let link = |outer, held: &Held| Some(Link::hold(held, held.share(), self.is_shadow, outer));
        let innermost = self.each().fold(scope::innermost(), link);
        match (innermost, &self.owned.parts) {
            (Some(link), None) => link,
            (outer, _) => Link::guard(self.watched(), self.is_shadow, outer),
        }
    }

    /// What its observers observe.
    fn watched(&self) -> Watched {
        let share = match &self.owned.parts {
            None => self.owned.share(),
            Some(_) => Share::Whole,
        };
        Watched::new(self.hold(), self.token(), &self.owned.leases, share)
    }

    /// Runs `future` for as long as the hold is valid.
    ///
    /// Every poll checks the deadline, before and after. Once the hold is lost, `future` is dropped, at the
    /// deadline and without help from the store, and the result is [`LockError::Lost`]. The same happens when
    /// the last poll blocks past the deadline: the value is too late, and is dropped. With [`OnLost::Finish`]
    /// `future` runs to its end, and the loss is reported in place of its value.
    ///
    /// If any code that `future` calls acquires the same lock, that is a re-entry: no round trip, the same
    /// fencing token. Concurrent re-entries, as in `join!`, wait for each other within their own `wait`, in
    /// order; only reads share. Code under a re-entry may re-enter again without waiting. A guard without a
    /// running `run` does not count as enclosing: after `let a = lock.lock().await?`, a second `lock.lock()` in
    /// the same function waits until `a` is dropped.
    ///
    /// # Errors
    ///
    /// The returned future resolves to [`LockError::Lost`] if the hold was lost before `future` ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops `future`. The guard is unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::in_memory();
    /// let guard = client.mutex("cart:7").lock().await?;
    /// guard.run(async {
    ///     let again = client.mutex("cart:7").lock().await?; // re-entry
    ///     assert_eq!(again.token(), guard.token());
    ///     Ok::<_, lock_runtime::LockError>(())
    /// }).await??;
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    // S-13, S-6.
    pub fn run<F: Future>(&self, future: F) -> Run<'_, F> {
        Run::under(self, future)
    }

    /// Returns the fencing token of this hold; the same for every nested guard. That of a semaphore grows with each
    /// acquire, and orders nothing while several tasks hold permits.
    // S-23.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        match &self.owned.parts {
            None => self.owned.token,
            Some(parts) => parts.hold.token(),
        }
    }

    /// Checks that the hold is valid, without the store: for code between two steps that must not run after a loss.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] once the hold is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn import(guard: &lock_runtime::LockGuard, rows: &[u64]) -> Result<(), lock_runtime::LockError> {
    /// for row in rows {
    ///     guard.check()?;
    ///     // Write the row.
    /// #   let _ = row;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    // S-12.
    pub fn check(&self) -> Result<(), LockError> {
        self.hold().ensure_held().map(drop)
    }

    /// Waits until the hold is lost, and returns the cause.
    ///
    /// Needs no network: this process watches the deadline.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(guard: lock_runtime::LockGuard) -> Result<(), lock_runtime::LockError> {
    /// tokio::select! {
    ///     lost = guard.lost() => Err(lost),
    ///     () = async { /* work that must stop in its own way */ } => guard.release().await,
    /// }
    /// # }
    /// ```
    // S-12.
    pub async fn lost(&self) -> LockError {
        lost(self.hold()).await
    }

    /// Makes the store keep the lock for at least `lease` from now. Never shortens it.
    ///
    /// The extension is for this guard and those inside of it: while it is longer than the lease of the lock's options, the
    /// hold passes to no other task of this process, but is released to the store.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] if `lease` is below 100 ms or above 24 h.
    /// - [`LockError::Lost`] if the hold is lost.
    /// - [`LockError::Store`] if the store did not answer; the deadline is then unchanged. The release is tried for as long
    ///   as the store may have extended the lease.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it resolves, the store may keep the lock longer than
    /// [`remaining`](Self::remaining) says; a release still ends it.
    // S-9.
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        check_lease(lease)?;
        self.owned.leases.check_caller()?;
        consume_budget().await;
        try_join_all(self.each().map(|held| held.extend(lease))).await.map(drop)
    }

    /// Returns a Redis command that the server runs only if this hold owns the lock at that moment.
    ///
    /// Add its keys and arguments, and await [`run`](RedisCommand::run). The second word of a command of two words is its first
    /// argument.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(hold: lock_runtime::LockGuard) -> Result<(), lock_runtime::LockError> {
    /// hold.redis("HSET").key("stock").arg("7").arg(3).run().await?;
    /// # Ok(())
    /// # }
    /// ```
    // S-37.
    #[cfg(feature = "redis")]
    pub fn redis(&self, command: impl Into<String>) -> RedisCommand {
        self.watch().redis(command)
    }

    /// Releases the lock and waits for the store's answer.
    ///
    /// Where tasks of this process wait in the queue, the hold may pass to the first of them without a round
    /// trip. A nested guard only undoes its re-entry. If the store does not answer, the releaser goes on trying
    /// after this returns. Before [`at_least`](crate::LockOptions::at_least) has passed, the
    /// lock is not freed but ends by itself then.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the hold was lost before: another holder may have run at the same time as the
    ///   code under it.
    /// - [`LockError::Store`] if the store could not be reached; the lock is free at the latest when
    ///   its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the rest to the releaser, as dropping the guard does.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let client = lock_runtime::LockClient::in_memory();
    /// let guard = client.mutex("order:42").lock().await?;
    /// guard.release().await?;
    /// assert!(client.mutex("order:42").try_lock().await?.is_some());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    // S-14.
    pub fn release(self) -> Release {
        Release::of(self)
    }

    /// As [`run`](Self::run), but takes the guard by value and returns it with the result. For hand-written
    /// futures, which cannot borrow from themselves.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops `future` first and then the guard.
    pub fn run_owned<F: Future>(self, future: F) -> RunOwned<F> {
        RunOwned::new(self, future)
    }

    /// Returns the lock's full name, namespace included.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.hold().target.key()
    }

    /// Returns how many permits of a [`Semaphore`](crate::Semaphore) it holds; one of every other kind.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.hold().owner.permits()
    }

    /// Returns the time left until the lease ends if nothing renews it; zero once lost. Measured on this
    /// process's clock from before the request was sent, so the store keeps the lock at least as long.
    ///
    /// The lease is shortened by a margin of 1 % and 2 ms for clocks of different speeds: right after a grant
    /// with a lease of 2 s less than 1.978 s are left, and then [`run`](Self::run) ends.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockClient, LockOptions};
    /// use std::time::Duration;
    ///
    /// let options = LockOptions::new().lease(Duration::from_secs(2));
    /// let guard = LockClient::in_memory().mutex("order:42").with(options).lock().await?;
    /// assert!(guard.remaining() <= Duration::from_millis(1_978));
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// Returns true once the hold is lost, and never false after that.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.hold().check().is_err()
    }

    /// Returns an observer of the hold that does not keep it, for code that may outlive the guard: it is over once the guard
    /// is released or dropped.
    pub fn watch(&self) -> LockWatch {
        LockWatch::new(self)
    }

    /// Returns the innermost hold around the calling code: that of [`run`](Self::run), of an annotated
    /// function, or one that [`scope::inherit`] carried here. `None` outside of every
    /// hold, or once its guards are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockClient, LockGuard};
    ///
    /// /// Deep in a program, where no guard is at hand.
    /// async fn write() -> Option<u64> {
    ///     LockGuard::current().map(|hold| hold.token().get())
    /// }
    ///
    /// let client = LockClient::in_memory();
    /// assert!(client.mutex("order:42").run(write()).await?.is_some());
    /// assert!(write().await.is_none());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<LockWatch> {
        LockWatch::enclosing()
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", self.key())
            .field("token", &self.token())
            // Printing a hold whose deadline has passed does not declare it lost.
            .field("remaining", &self.hold().peek_remaining())
            .finish_non_exhaustive()
    }
}
