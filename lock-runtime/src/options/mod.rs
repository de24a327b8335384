//! How to acquire: how long to wait, how long to hold, what to do when the hold is lost. [`LockOptions`] are
//! complete; [`LockSettings`] are what one place says, where each option can be omitted.

use std::time::Duration;

mod limits;
mod settings;
pub(crate) mod values;

pub use self::limits::{DEFAULT_LEASE, MAX_LEASE, MAX_MULTI_NAMES, MIN_LEASE};
pub(crate) use self::limits::{DEFAULT_TOKEN_TTL, TOKEN_TTL};
pub use self::settings::LockSettings;
#[cfg(feature = "policy")]
pub(crate) use self::settings::for_each_setting;
pub use self::values::{Lease, LockKind, OnLost, OnReleaseLost, Replicas, Wait};
use crate::error::LockError;

/// How a lock is acquired and held, checked when built.
///
/// # Examples
///
/// ```
/// use lock_runtime::{LockOptions, Wait};
/// use std::time::Duration;
///
/// let options = LockOptions::builder().wait(Duration::from_secs(2)).build()?;
/// assert_eq!(options.wait(), Wait::UpTo(Duration::from_secs(2)));
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// What was set; the kind never is. Layers for HTTP have defaults of their own, so what was set to the default
    /// is told from what was not set.
    settings: LockSettings,
}

/// How many tasks may wait for one key in one client unless told otherwise.
// S-18.
const DEFAULT_MAX_WAITERS: usize = 16_384;

impl LockOptions {
    /// Starts from the defaults: wait for ever, a 30 s watchdog lease, cancel on loss.
    pub fn builder() -> LockOptionsBuilder {
        LockOptionsBuilder { settings: LockSettings::UNSET }
    }

    /// Starts from these options.
    pub fn to_builder(self) -> LockOptionsBuilder {
        LockOptionsBuilder { settings: self.settings }
    }

    /// How long to wait for the lock.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.settings.wait.unwrap_or_default()
    }

    /// These options with another wait, which needs no check.
    pub(crate) fn with_wait(self, wait: Wait) -> Self {
        Self { settings: LockSettings { wait: Some(wait), ..self.settings } }
    }

    /// These options for a call that runs in any case: it waits for nobody, also not for replicas, and
    /// no loss concerns it.
    pub(crate) fn for_a_shadow_lock(self) -> Self {
        let (wait, on_lost) = (Some(Wait::Never), Some(OnLost::Finish));
        Self { settings: LockSettings { wait, on_lost, replicas: None, ..self.settings } }
    }

    /// How long the store keeps the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.settings.lease.unwrap_or_default()
    }

    /// What happens to the body when the hold is lost.
    #[must_use]
    pub fn on_lost(&self) -> OnLost {
        self.settings.on_lost.unwrap_or_default()
    }

    /// What happens when a body has ended in time, but its release finds the hold gone.
    #[must_use]
    pub fn on_release_lost(&self) -> OnReleaseLost {
        self.settings.on_release_lost.unwrap_or_default()
    }

    /// For how long the lock is kept at least, however soon it is let go.
    #[must_use]
    pub fn at_least(&self) -> Option<Duration> {
        self.settings.at_least
    }

    /// The lease that the store is asked for: a process that dies early keeps its lock for `at_least`.
    pub(crate) fn stored_lease(&self) -> Lease {
        match (self.lease(), self.at_least()) {
            (Lease::Watchdog(lease), Some(at_least)) => Lease::Watchdog(lease.max(at_least)),
            // A fixed one is as long already.
            (lease, _) => lease,
        }
    }

    /// After how long the watchdog stops renewing, if ever.
    #[must_use]
    pub fn max_hold(&self) -> Option<Duration> {
        self.settings.max_hold
    }

    /// How many tasks may wait for the key in this client.
    #[must_use]
    pub fn max_waiters(&self) -> usize {
        self.settings.max_waiters.unwrap_or(DEFAULT_MAX_WAITERS)
    }

    /// These options with another default wait and line: what was set stays, also where it is what the
    /// default is.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockOptions, Wait};
    /// use std::time::Duration;
    ///
    /// let brief = Wait::UpTo(Duration::from_secs(10));
    /// let set = LockOptions::builder().wait(Wait::Forever).build()?;
    /// assert_eq!(set.with_fallbacks(brief, 1024).wait(), Wait::Forever);
    /// assert_eq!(LockOptions::default().with_fallbacks(brief, 1024).wait(), brief);
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[must_use]
    pub fn with_fallbacks(self, wait: Wait, max_waiters: usize) -> Self {
        let (wait, max_waiters) = (Some(wait), Some(max_waiters));
        Self {
            settings: self.settings.or(LockSettings { wait, max_waiters, ..LockSettings::UNSET }),
        }
    }

    /// How many replicas have to know of a hold before it counts, if any.
    #[must_use]
    pub fn replicas(&self) -> Option<Replicas> {
        self.settings.replicas
    }
}

/// Builds [`LockOptions`].
#[derive(Debug, Clone, Copy)]
#[must_use = "a builder does nothing until `build`"]
pub struct LockOptionsBuilder {
    settings: LockSettings,
}

impl LockOptionsBuilder {
    /// How long to wait for the lock. Default: [`Wait::Forever`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.settings.wait = Some(wait.into());
        self
    }

    /// How long the store keeps the lock. Default: a watchdog lease of [`DEFAULT_LEASE`].
    pub fn lease(mut self, lease: Lease) -> Self {
        self.settings.lease = Some(lease);
        self
    }

    /// What happens to the body when the hold is lost. Default: [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.settings.on_lost = Some(on_lost);
        self
    }

    /// What happens when a body has ended in time, but its release finds the hold gone. Default:
    /// [`OnReleaseLost::Log`]. For attributes and layers, which release by themselves.
    pub fn on_release_lost(mut self, on_release_lost: OnReleaseLost) -> Self {
        self.settings.on_release_lost = Some(on_release_lost);
        self
    }

    /// Keeps the lock at least so long, counted from when it was taken, however soon it is let go: for
    /// jobs that several replicas start at about the same time and one should run. Longer tolerates
    /// clocks that are further apart, shorter lets the next run start sooner. Default: not at all.
    ///
    /// Letting go earlier, by release or drop, tells the store to end the lock then, also where its
    /// lease would have ended sooner or later. Once the store has answered, nobody has to be alive for
    /// that: a release that was waited for counts even if the process exits right after. Until then
    /// tasks of this process wait like everybody else, and only
    /// [`force_release`](crate::LockClient::force_release) frees it sooner. A process that dies before
    /// it lets go keeps the lock as long, too: the store's lease is the longer of the lease and `at_least`, while
    /// renewals and losses go by the lease. What is lost is not kept, nor is what was granted to a caller that
    /// had gone.
    ///
    /// Counts for the guard that takes the lock: a re-entry joins its hold, and its own `at_least` is
    /// ignored. Readers who ask for this share a hold with nobody.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockOptions, Wait};
    /// use std::time::Duration;
    ///
    /// // One run a night, on replicas whose clocks differ by less than a minute.
    /// let nightly =
    ///     LockOptions::builder().wait(Wait::Never).at_least(Duration::from_secs(60)).build()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.settings.at_least = Some(at_least);
        self
    }

    /// After how long the watchdog stops renewing, so that a body that hangs for ever loses the
    /// lock one lease later. Default: never.
    ///
    /// Counts for the guard that takes the lock: a re-entry joins its hold, limit or none included,
    /// and its own `max_hold` is ignored.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.settings.max_hold = Some(max_hold);
        self
    }

    /// How many tasks of this client may line up for the key, behind the one that has it or asks the
    /// store for it, before others get [`LockError::Busy`]. Of a fair mutex, where all ask the
    /// store, one more than that. Re-entries that wait inside one hold are counted for that hold alone.
    /// More keep a burst waiting, fewer shed it early. Default: 16 384.
    // S-18.
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.settings.max_waiters = Some(max_waiters);
        self
    }

    /// Counts a hold only once `at_least` replicas have acknowledged it, within `timeout`.
    ///
    /// Fewer, and it is given back and asked for again until `wait` ends, which is then
    /// [`LockError::NotReplicated`]. A failover to one of the replicas that acknowledged keeps the
    /// lock; one to another replica is noticed by the next renewal. Renewals do not ask replicas: a
    /// lock that is held outlives their outage, and one whose replicas lag behind for longer than
    /// two thirds of its lease can be lost with the failover. A re-entry stands on the hold around it,
    /// however many know of that. Costs a round trip between the servers, and a second connection for
    /// all locks of the client that ask for replicas. Default: none.
    // S-31.
    pub fn replicas(mut self, at_least: u32, timeout: Duration) -> Self {
        self.settings.replicas = Some(Replicas { at_least, timeout });
        self
    }

    /// Checks the options and hands them out.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if the lease is below [`MIN_LEASE`] or above [`MAX_LEASE`], if
    /// `wait` is zero, if `max_hold` is zero or meets a fixed lease, which is never renewed, if `at_least`
    /// is zero, longer than a fixed lease or `max_hold`, or above [`MAX_LEASE`], or if `replicas` asks
    /// for none or gives them no time or more than the lease.
    pub fn build(self) -> Result<LockOptions, LockError> {
        let LockSettings { wait, replicas, at_least, max_hold, .. } = self.settings;
        let lease = self.settings.lease.unwrap_or_default();
        let invalid = |problem: String| Err(LockError::InvalidOptions(problem));
        check_lease(lease.duration())?;
        if wait == Some(Wait::UpTo(Duration::ZERO)) {
            return invalid("a wait of zero never waits; use Wait::Never to say so".into());
        }
        if let Some(Replicas { at_least, timeout }) = replicas
            && (at_least == 0 || timeout < Duration::from_millis(1) || timeout >= lease.duration())
        {
            return invalid(format!(
                "replicas are {at_least} within {timeout:?}; ask for at least one, within at least \
                 a millisecond and less than the lease of {:?}",
                lease.duration()
            ));
        }
        if let Some(at_least) = at_least {
            check_at_least(at_least, lease, max_hold)?;
        }
        match (max_hold, lease) {
            (Some(Duration::ZERO), _) => {
                invalid("max_hold is zero; omit it, or set a positive duration".into())
            }
            (Some(max_hold), Lease::Fixed(_)) => invalid(format!(
                "max_hold {max_hold:?} has no meaning with a fixed lease, which is never renewed"
            )),
            _ => Ok(LockOptions { settings: self.settings }),
        }
    }
}

impl LockSettings {
    /// Writes these settings over `options` and checks the whole.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] as [`LockOptionsBuilder::build`].
    pub fn apply_to(self, options: LockOptions) -> Result<LockOptions, LockError> {
        let settings = Self { kind: None, ..self.or(options.settings) };
        LockOptionsBuilder { settings }.build()
    }
}

fn check_at_least(
    at_least: Duration,
    lease: Lease,
    max_hold: Option<Duration>,
) -> Result<(), LockError> {
    let problem = match (lease, max_hold) {
        _ if at_least.is_zero() => {
            "at_least is zero; omit it, or set a positive duration".to_owned()
        }
        _ if at_least > MAX_LEASE => {
            format!("at_least is {at_least:?}, and a lock is kept for {MAX_LEASE:?} at most")
        }
        (Lease::Fixed(lease), _) if at_least > lease => format!(
            "at_least {at_least:?} is longer than the fixed lease of {lease:?}; make the lease as long"
        ),
        (Lease::Watchdog(_), Some(max_hold)) if at_least > max_hold => {
            format!("at_least {at_least:?} is longer than max_hold {max_hold:?}; make that as long")
        }
        _ => return Ok(()),
    };
    Err(LockError::InvalidOptions(problem))
}

/// Refuses leases that renewals could not fit into, and those that outlive the fencing counter.
pub(crate) fn check_lease(lease: Duration) -> Result<(), LockError> {
    if lease < MIN_LEASE {
        return Err(LockError::InvalidOptions(format!(
            "a lease of {lease:?} is too short to be kept; give at least {MIN_LEASE:?}"
        )));
    }
    if lease > MAX_LEASE {
        return Err(LockError::InvalidOptions(format!(
            "a lease of {lease:?} is too long; give at most {MAX_LEASE:?} or use a watchdog lease"
        )));
    }
    Ok(())
}
