//! How to acquire: how long to wait, how long to hold, what to do when the hold is lost. [`LockOptions`] are
//! complete; [`LockSettings`] belong to one place, and can omit each option.

use std::sync::Arc;
use std::time::Duration;

mod limits;
mod settings;
mod text;
pub(crate) mod values;

pub use self::limits::{DEFAULT_LEASE, MAX_LEASE, MAX_MULTI_NAMES, MIN_LEASE};
pub(crate) use self::limits::{DEFAULT_TOKEN_TTL, TOKEN_TTL};
pub use self::settings::LockSettings;
#[cfg(feature = "policy")]
pub(crate) use self::settings::for_each_setting;
pub(crate) use self::text::duration_text;
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
    /// The options that were set; the kind never is. Layers for HTTP have defaults of their own, so an option
    /// set to its default value differs from one that was not set.
    settings: LockSettings,
}

/// Default number of tasks that may wait for one key in one client.
// S-18.
const DEFAULT_MAX_WAITERS: usize = 16_384;

impl LockOptions {
    /// Starts from the defaults: wait forever, a 30 s watchdog lease, cancel on loss.
    pub fn builder() -> LockOptionsBuilder {
        LockOptionsBuilder { settings: LockSettings::UNSET }
    }

    /// Starts from these options.
    pub fn to_builder(self) -> LockOptionsBuilder {
        LockOptionsBuilder { settings: self.settings }
    }

    /// Returns how long to wait for the lock.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.settings.wait.unwrap_or_default()
    }

    /// Returns these options with another wait, which needs no check.
    pub(crate) fn with_wait(self, wait: Wait) -> Self {
        Self { settings: LockSettings { wait: Some(wait), ..self.settings } }
    }

    /// Returns these options for a call that runs anyway: it waits neither for the lock nor for replicas, and
    /// no loss stops it.
    pub(crate) fn for_a_shadow_lock(self) -> Self {
        let (wait, on_lost) = (Some(Wait::Never), Some(OnLost::Finish));
        Self { settings: LockSettings { wait, on_lost, replicas: None, ..self.settings } }
    }

    /// Returns how long the store keeps the lock.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.settings.lease.unwrap_or_default()
    }

    /// Returns what happens to the body when the hold is lost.
    #[must_use]
    pub fn on_lost(&self) -> OnLost {
        self.settings.on_lost.unwrap_or_default()
    }

    /// Returns what happens when a body has ended in time, but its release finds the hold gone.
    #[must_use]
    pub fn on_release_lost(&self) -> OnReleaseLost {
        self.settings.on_release_lost.unwrap_or_default()
    }

    /// Returns for how long the lock is kept at least, however soon it is released.
    #[must_use]
    pub fn at_least(&self) -> Option<Duration> {
        self.settings.at_least
    }

    /// Returns the lease of the request: a process that dies early keeps its lock for `at_least`.
    pub(crate) fn stored_lease(&self) -> Lease {
        match (self.lease(), self.at_least()) {
            (Lease::Watchdog(lease), Some(at_least)) => Lease::Watchdog(lease.max(at_least)),
            // A fixed lease is already that long.
            (lease, _) => lease,
        }
    }

    /// Returns after how long the watchdog stops renewing, if ever.
    #[must_use]
    pub fn max_hold(&self) -> Option<Duration> {
        self.settings.max_hold
    }

    /// Returns how many tasks may wait for the key in this client.
    #[must_use]
    pub fn max_waiters(&self) -> usize {
        self.settings.max_waiters.unwrap_or(DEFAULT_MAX_WAITERS)
    }

    /// Returns these options with another default wait and queue: options that were set stay, even those set to
    /// the default.
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

    /// Returns how many replicas must confirm a hold before it counts, if any.
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
    /// Sets how long to wait for the lock. Default: [`Wait::Forever`].
    ///
    /// A store that answers is not waited for any longer. One that does not has a tenth of a second for the request that
    /// ends the wait, or a wait of a few milliseconds over a slow network would never get a free lock: until then it is
    /// not known whether the lock is busy.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.settings.wait = Some(wait.into());
        self
    }

    /// Sets how long the store keeps the lock. Default: a watchdog lease of [`DEFAULT_LEASE`].
    pub fn lease(mut self, lease: Lease) -> Self {
        self.settings.lease = Some(lease);
        self
    }

    /// Sets what happens to the body when the hold is lost. Default: [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.settings.on_lost = Some(on_lost);
        self
    }

    /// Sets what happens when a body has ended in time, but its release finds the hold gone. Default:
    /// [`OnReleaseLost::Log`]. For attributes and layers, which release by themselves.
    pub fn on_release_lost(mut self, on_release_lost: OnReleaseLost) -> Self {
        self.settings.on_release_lost = Some(on_release_lost);
        self
    }

    /// Keeps the lock at least this long, counted from the acquire, however soon it is released: for jobs that
    /// several replicas start at about the same time and only one should run. A longer time tolerates clocks
    /// that are further apart, a shorter one lets the next run start sooner. Default: not at all.
    ///
    /// An earlier release or drop tells the store to end the lock at that time, even if its lease would have
    /// ended sooner or later. Once the store has answered, no process needs to be alive for that: an awaited
    /// release counts even if the process exits right after. Until then tasks of this process wait like all
    /// others, and only [`force_release`](crate::LockClient::force_release) frees the lock sooner. A process
    /// that dies before the release keeps the lock as long, too: the store's lease is the longer of the lease
    /// and `at_least`, while renewals and losses follow the lease. A lost lock is not kept, nor one that was
    /// granted to a caller that had gone.
    ///
    /// Applies to the guard that acquires the lock: a re-entry joins its hold, and its own `at_least` is
    /// ignored. Readers with this option do not share a hold.
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

    /// Sets after how long the watchdog stops renewing, so that a body that hangs forever loses the lock one
    /// lease later. Default: never.
    ///
    /// Applies to the guard that acquires the lock: a re-entry joins its hold with its limit, or with none, and
    /// the re-entry's own `max_hold` is ignored.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.settings.max_hold = Some(max_hold);
        self
    }

    /// Sets how many tasks of this client may queue for the key, behind the one that has it or asks the store
    /// for it, before further ones get [`LockError::Busy`]. For a fair mutex, where all ask the store, one more
    /// than that. Re-entries that wait inside one hold are counted for that hold alone. A larger number keeps a
    /// burst waiting, a smaller one sheds it early; with 0 no task queues behind another of its client. Default:
    /// 16 384.
    // S-18.
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.settings.max_waiters = Some(max_waiters);
        self
    }

    /// Counts a hold only once `at_least` replicas have acknowledged it, within `timeout`.
    ///
    /// With fewer acknowledgements the lock is released and requested again until `wait` ends, which is then
    /// [`LockError::NotReplicated`]. A failover to one of the replicas that acknowledged keeps the lock; the
    /// next renewal notices a failover to another replica. Renewals do not ask replicas: a held lock outlives
    /// their outage, and a lock whose replicas lag behind for longer than two thirds of its lease can be lost
    /// with the failover. A re-entry uses the hold around it, however many replicas confirmed that. Costs a
    /// round trip between the servers, and a second connection for all locks of the client that ask for
    /// replicas. Default: none.
    // S-31.
    pub fn replicas(mut self, at_least: u32, timeout: Duration) -> Self {
        self.settings.replicas = Some(Replicas { at_least, timeout });
        self
    }

    /// Checks the options and returns them.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if the lease is below [`MIN_LEASE`] or above [`MAX_LEASE`], if `wait` is
    /// zero, if `max_hold` is zero or combined with a fixed lease, which is never renewed, if `at_least` is
    /// zero, longer than a fixed lease or `max_hold`, or above [`MAX_LEASE`], or if `replicas` asks for none or
    /// gives them no time or more than the lease.
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
            let (timeout, lease) = (duration_text(timeout), duration_text(lease.duration()));
            return invalid(format!(
                "replicas are {at_least} within {timeout}; ask for at least one, within at least \
                 a millisecond and less than the lease of {lease}"
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
                "max_hold {} has no meaning with a fixed lease, which is never renewed",
                duration_text(max_hold)
            )),
            _ => Ok(LockOptions { settings: self.settings }),
        }
    }
}

impl LockSettings {
    /// Writes these settings over `options` and checks the result.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] as [`LockOptionsBuilder::build`].
    pub fn apply_to(self, options: LockOptions) -> Result<LockOptions, LockError> {
        let settings = Self { kind: None, ..self.or(options.settings) };
        LockOptionsBuilder { settings }.build()
    }

    /// As [`apply_to`](Self::apply_to), and returns the same options if these settings change none.
    pub(crate) fn apply_to_shared(
        self,
        options: &Arc<LockOptions>,
    ) -> Result<Arc<LockOptions>, LockError> {
        match (Self { kind: None, ..self }) {
            Self::UNSET => Ok(Arc::clone(options)),
            settings => settings.apply_to(**options).map(Arc::new),
        }
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
            let (given, most) = (duration_text(at_least), duration_text(MAX_LEASE));
            format!("at_least is {given}, and a lock is kept for {most} at most")
        }
        (Lease::Fixed(lease), _) if at_least > lease => format!(
            "at_least {} is longer than the fixed lease of {}; make the lease as long",
            duration_text(at_least),
            duration_text(lease)
        ),
        (Lease::Watchdog(_), Some(max_hold)) if at_least > max_hold => {
            let (at_least, max_hold) = (duration_text(at_least), duration_text(max_hold));
            format!("at_least {at_least} is longer than max_hold {max_hold}; make that as long")
        }
        _ => return Ok(()),
    };
    Err(LockError::InvalidOptions(problem))
}

/// Refuses leases that are too short for renewals, and those that outlive the fencing counter.
pub(crate) fn check_lease(lease: Duration) -> Result<(), LockError> {
    let problem = if lease < MIN_LEASE {
        let (given, least) = (duration_text(lease), duration_text(MIN_LEASE));
        format!("a lease of {given} is too short to be kept; give at least {least}")
    } else if lease > MAX_LEASE {
        let (given, most) = (duration_text(lease), duration_text(MAX_LEASE));
        format!("a lease of {given} is too long; give at most {most} or use a watchdog lease")
    } else {
        return Ok(());
    };
    Err(LockError::InvalidOptions(problem))
}
