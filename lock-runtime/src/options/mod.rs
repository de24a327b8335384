//! How to acquire: how long to wait, how long to hold, what to do when the hold is lost. [`LockOptions`] omit what they
//! do not set, so that those of a lock, a policy and a client can be merged.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "policy")]
pub(crate) mod forms;
mod limits;
mod text;
pub(crate) mod values;

pub use self::limits::{
    DEFAULT_LEASE, DEFAULT_RELEASE_TIMEOUT, DEFAULT_WAIT, MAX_LEASE, MAX_MULTI_NAMES, MIN_LEASE,
};
pub(crate) use self::limits::{DEFAULT_TOKEN_TTL, SETTINGS, TOKEN_TTL};
pub(crate) use self::text::duration_text;
pub use self::values::{Lease, LockKind, OnLost, OnReleaseLost, Replicas, Wait};
use crate::error::LockError;

/// Calls the macro `$make` with `$before` and each option: its name, the type of its value, the type that its setter accepts, the
/// function of `policy::text` that reads it from a file, and its documentation.
macro_rules! for_each_option {
    ($make:path $(, $($before:tt)*)?) => {
        $make! {
            $($($before)*)?
            /// Sets how long to wait for the lock: in a file `"3s"`, `"none"` or `"forever"`. Default:
            /// [`DEFAULT_WAIT`](crate::options::DEFAULT_WAIT), and 10 s for layers of HTTP services.
            ///
            /// A store that answers is not waited for any longer. One that does not has a tenth of a second for the
            /// request that ends the wait, or a wait of a few milliseconds over a slow network would never get a free
            /// lock: until then it is not known whether the lock is busy. A wait of zero is invalid; write
            /// [`Wait::None`](crate::Wait::None).
            // S-18.
            wait: $crate::Wait, impl Into<$crate::Wait>, "text::wait";
            /// Sets how long the store keeps the lock: in a file `"10s"`, `"watchdog"` or `"watchdog 30s"`. A
            /// [`Duration`](std::time::Duration) is a fixed lease. Default: a watchdog lease of
            /// [`DEFAULT_LEASE`](crate::options::DEFAULT_LEASE).
            ///
            /// It lasts from [`MIN_LEASE`](crate::options::MIN_LEASE) to [`MAX_LEASE`](crate::options::MAX_LEASE). A
            /// fixed lease allows neither a longer `at_least` nor a shorter `max_hold`.
            lease: $crate::Lease, impl Into<$crate::Lease>, "text::lease";
            /// Sets after how long the watchdog stops renewing, so that a body that hangs forever loses the lock one
            /// lease later. Default: never. A fixed lease is not renewed and ends by itself, within this time.
            ///
            /// Applies to the guard that acquires the lock: a re-entry joins its hold with its limit, or with none, and
            /// the re-entry's own `max_hold` is ignored.
            max_hold: ::std::time::Duration, ::std::time::Duration, "text::duration";
            /// Keeps the lock at least this long, counted from the acquire, however soon it is released: for jobs that
            /// several replicas start at about the same time and only one should run. A longer time tolerates clocks
            /// that are further apart, a shorter one lets the next run start sooner. Default: not at all.
            ///
            /// An earlier release or drop tells the store to end the lock at that time, even if its lease would have
            /// ended sooner or later. Once the store has answered, no process needs to be alive for that: an awaited
            /// release counts even if the process exits right after. Until then tasks of this process wait like all
            /// others, and only [`force_release`](crate::admin::Admin::force_release) frees the lock sooner. A process
            /// that dies before the release keeps the lock as long, too: the store's lease is the longer of the lease
            /// and `at_least`, while renewals and losses follow the lease. A lost lock is not kept, nor one that was
            /// granted to a caller that had gone.
            ///
            /// Applies to the guard that acquires the lock: a re-entry joins its hold, and its own `at_least` is
            /// ignored. Readers with this option do not share a hold.
            at_least: ::std::time::Duration, ::std::time::Duration, "text::duration";
            /// Sets what happens to the body when the hold is lost: in a file `"cancel"` or `"finish"`. Default:
            /// [`OnLost::Cancel`](crate::options::OnLost::Cancel).
            on_lost: $crate::options::OnLost, $crate::options::OnLost, "text::on_lost";
            /// Sets what happens when a body has ended in time, but its release finds the hold gone: in a file `"log"`
            /// or `"error"`. Default: [`OnReleaseLost::Log`](crate::options::OnReleaseLost::Log). For `run`,
            /// attributes and layers, which release by themselves.
            on_release_lost: $crate::options::OnReleaseLost, $crate::options::OnReleaseLost, "text::on_release_lost";
            /// Sets how long `run`, an annotated function or a layer waits for the release of its lock after the body.
            /// Default: [`DEFAULT_RELEASE_TIMEOUT`](crate::options::DEFAULT_RELEASE_TIMEOUT).
            ///
            /// Then the release goes on in the background, and the caller gets the body's value: whether the hold was
            /// lost is unknown. A longer time finds the lock free for the caller's next step while the store is slow, a
            /// shorter one returns sooner; zero does not wait for the store. A guard's own
            /// [`release`](crate::LockGuard::release) waits for the store's answer.
            // S-20.
            release_timeout: ::std::time::Duration, ::std::time::Duration, "text::duration";
            /// Sets how many tasks of this client may queue for the key, behind the one that has it or asks the store
            /// for it, before further ones get [`LockError::Busy`](crate::LockError::Busy). For a fair mutex, where all
            /// ask the store, one more than that. Re-entries that wait inside one hold are counted for that hold alone.
            /// A larger number keeps a burst waiting, a smaller one sheds it early; with 0 no task queues behind
            /// another of its client. Default: 16 384.
            // S-18.
            max_waiters: usize, usize, "text::count";
            /// Counts a hold only once that many replicas have acknowledged it in time: in a file
            /// `{ acks = 1, timeout = "200ms" }`. Default: none.
            ///
            /// With fewer acknowledgements the lock is released and requested again until `wait` ends, which is then
            /// [`LockError::NotReplicated`](crate::LockError::NotReplicated). A failover to one of the replicas that
            /// acknowledged keeps the lock; the next renewal notices a failover to another replica. Renewals do not ask
            /// replicas: a held lock outlives their outage, and a lock whose replicas lag behind for longer than two
            /// thirds of its lease can be lost with the failover. A re-entry uses the hold around it, however many
            /// replicas confirmed that. Costs a round trip between the servers, and a second connection for all locks
            /// of the client that ask for replicas.
            // S-31.
            replicas: $crate::options::Replicas, $crate::options::Replicas, "text::replicas";
        }
    };
}
#[cfg(feature = "policy")]
pub(crate) use for_each_option;

macro_rules! lock_options {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $given:ty, $reader:tt;)*) => {
        /// How a lock is acquired and held. An option that is not set leaves the choice to the next place: a lock's own
        /// options lie over those of its policy, these over those of its client, and these over the defaults.
        ///
        /// They are checked when a lock is acquired, or by [`check`](Self::check).
        ///
        /// # Examples
        ///
        /// ```
        /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        /// use lock_runtime::{LockClient, LockOptions, Wait};
        /// use std::time::Duration;
        ///
        /// let patient = LockOptions::new().wait(Wait::Forever).max_hold(Duration::from_secs(60));
        /// let client = LockClient::builder().options(patient).in_memory()?;
        /// // Waits for two seconds, and holds for a minute at most.
        /// let options = LockOptions::new().wait(Duration::from_secs(2));
        /// let guard = client.mutex("order:42").with(options).lock().await?;
        /// // One option needs no `LockOptions`.
        /// assert!(client.mutex("order:42").wait(Wait::None).lock().await.unwrap_err().is_busy());
        /// guard.release().await?;
        /// # Ok::<_, lock_runtime::LockError>(()) })?;
        /// # Ok::<_, Box<dyn std::error::Error>>(())
        /// ```
        // Not `Copy`: an option of another type may come.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[must_use = "options do nothing until a lock or a client gets them"]
        #[non_exhaustive]
        pub struct LockOptions {
            /// The kind that an attribute, a layer or a policy names. Locks ignore it.
            pub kind: Option<LockKind>,
            $(
                #[doc = concat!("What [`", stringify!($name), "`](Self::", stringify!($name), "()) has set.")]
                pub $name: Option<$type>,
            )*
        }

        impl LockOptions {
            /// Options that set nothing.
            pub const fn new() -> Self {
                Self { kind: None, $($name: None,)* }
            }

            $(
                $(#[$doc])*
                pub fn $name(self, $name: $given) -> Self {
                    Self { $name: Some($name.into()), ..self }
                }
            )*

            /// Returns these options, with those of `lower` where they set none.
            pub fn or(self, lower: Self) -> Self {
                Self { kind: self.kind.or(lower.kind), $($name: self.$name.or(lower.$name),)* }
            }
        }
    };
}

for_each_option!(lock_options);

/// Default number of tasks that may wait for one key in one client.
// S-18.
const DEFAULT_MAX_WAITERS: usize = 16_384;

impl LockOptions {
    /// Checks the options: for the start of a program, before any lock is acquired.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if the lease is below [`MIN_LEASE`] or above [`MAX_LEASE`], if `wait` is
    /// zero, if `max_hold` is zero or combined with a fixed lease, which is never renewed, if `at_least` is
    /// zero, longer than a fixed lease or `max_hold`, or above [`MAX_LEASE`], or if `replicas` asks for none or
    /// gives them no time or more than the lease.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockOptions;
    /// use std::time::Duration;
    ///
    /// let job = LockOptions::new().lease(Duration::from_secs(10)).at_least(Duration::from_secs(60));
    /// let error = job.check().unwrap_err().to_string();
    /// assert!(error.contains("at_least 1m is longer than the fixed lease of 10s"), "{error}");
    /// ```
    pub fn check(&self) -> Result<(), LockError> {
        let problem = self.problem();
        problem.map_or(Ok(()), |(_, problem)| Err(LockError::InvalidOptions(problem)))
    }

    /// Returns the option that cannot be used, and why.
    pub(crate) fn problem(&self) -> Option<(&'static str, String)> {
        if self.kind == Some(LockKind::Semaphore(0)) {
            let problem = "semaphore(0) admits no holder; give at least one permit";
            return Some(("kind", problem.to_owned()));
        }
        let lease = self.get_lease();
        if let Err(LockError::InvalidOptions(problem)) = check_lease(lease.duration()) {
            return Some(("lease", problem));
        }
        if self.wait == Some(Wait::UpTo(Duration::ZERO)) {
            let problem = "a wait of zero never waits; use Wait::None to say so";
            return Some(("wait", problem.to_owned()));
        }
        if let Some(Replicas { acks, timeout }) = self.replicas
            && (acks == 0 || timeout < Duration::from_millis(1) || timeout >= lease.duration())
        {
            let (timeout, lease) = (duration_text(timeout), duration_text(lease.duration()));
            let problem = format!(
                "replicas are {acks} within {timeout}; ask for at least one, within at least \
                 a millisecond and less than the lease of {lease}"
            );
            return Some(("replicas", problem));
        }
        if let Some(at_least) = self.at_least
            && let Some(problem) = at_least_problem(at_least, lease, self.max_hold)
        {
            return Some(("at_least", problem));
        }
        let problem = match (self.max_hold?, lease) {
            (Duration::ZERO, _) => {
                "max_hold is zero; omit it, or set a positive duration".to_owned()
            }
            (max_hold, Lease::Fixed(lease)) if max_hold < lease => format!(
                "max_hold {} is shorter than the fixed lease of {}; make the lease as short",
                duration_text(max_hold),
                duration_text(lease)
            ),
            _ => return None,
        };
        Some(("max_hold", problem))
    }

    /// Returns these options over `lower`, as those of a lock: without the kind.
    pub(crate) fn over(self, lower: &Self) -> Self {
        Self { kind: None, ..self.or(lower.clone()) }
    }

    /// As [`over`](Self::over): the same options if these set none.
    pub(crate) fn over_shared(self, lower: &Arc<Self>) -> Arc<Self> {
        match (Self { kind: None, ..self }) {
            nothing if nothing == Self::new() => Arc::clone(lower),
            options => Arc::new(options.over(lower)),
        }
    }

    /// Returns these options for a call that runs anyway: it waits neither for the lock nor for replicas, and
    /// no loss stops it.
    pub(crate) fn for_a_shadow_lock(self) -> Self {
        Self { replicas: None, ..self.wait(Wait::None).on_lost(OnLost::Finish) }
    }

    /// Returns how a release after a body ends.
    pub(crate) fn release_terms(&self) -> ReleaseTerms {
        ReleaseTerms { on_lost: self.get_on_release_lost(), timeout: self.get_release_timeout() }
    }

    /// Returns the lease of the request: a process that dies early keeps its lock for `at_least`.
    pub(crate) fn stored_lease(&self) -> Lease {
        match (self.get_lease(), self.at_least) {
            (Lease::Watchdog(lease), Some(at_least)) => Lease::Watchdog(lease.max(at_least)),
            // A fixed lease is already that long.
            (lease, _) => lease,
        }
    }
}

/// The values in effect.
impl LockOptions {
    pub(crate) fn get_wait(&self) -> Wait {
        self.wait.unwrap_or_default()
    }

    pub(crate) fn get_lease(&self) -> Lease {
        self.lease.unwrap_or_default()
    }

    pub(crate) fn get_on_lost(&self) -> OnLost {
        self.on_lost.unwrap_or_default()
    }

    pub(crate) fn get_on_release_lost(&self) -> OnReleaseLost {
        self.on_release_lost.unwrap_or_default()
    }

    pub(crate) fn get_release_timeout(&self) -> Duration {
        self.release_timeout.unwrap_or(DEFAULT_RELEASE_TIMEOUT)
    }

    pub(crate) fn get_max_waiters(&self) -> usize {
        self.max_waiters.unwrap_or(DEFAULT_MAX_WAITERS)
    }
}

/// How a release after a body ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReleaseTerms {
    /// What happens if the hold turns out to be gone.
    pub(crate) on_lost: OnReleaseLost,
    /// How long the caller waits for it.
    pub(crate) timeout: Duration,
}

impl ReleaseTerms {
    /// For a call that does not report a loss, or has no lock.
    pub(crate) const LOG: Self =
        Self { on_lost: OnReleaseLost::Log, timeout: DEFAULT_RELEASE_TIMEOUT };
}

fn at_least_problem(
    at_least: Duration,
    lease: Lease,
    max_hold: Option<Duration>,
) -> Option<String> {
    Some(match (lease, max_hold) {
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
        _ => return None,
    })
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
