//! [`Handle`]: the part that all kinds of locks share.

use std::sync::Arc;

use super::{Acquire, AcquireSpec, Engine, RunLocked};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::observe::{AcquireRecorder, Label};
use crate::options::{Lease, LockOptions, LockOptionsBuilder, Wait};
use crate::site::CallSite;
use crate::store::Target;

/// A handle of one lock, behind each of the kinds.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    /// The client and its lock, or the error of an invalid lock or option, which the first use reports.
    lock: Result<(Arc<Engine>, Arc<Target>), LockError>,
    /// Shared with each acquire, and with all handles of a client that have its defaults.
    options: Arc<LockOptions>,
    permits: u32,
    label: Label,
}

impl Handle {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        target: Result<Arc<Target>, LockError>,
        options: Arc<LockOptions>,
    ) -> Self {
        let token_ttl = engine.leases.timing.token_ttl;
        let lock = target.map(|target| (Arc::clone(engine), target.with_token_ttl(token_ttl)));
        Self { lock, options, permits: 1, label: Label::default() }
    }

    /// A lock whose every acquire fails with `error`.
    pub(crate) fn invalid(error: LockError) -> Self {
        let options = Arc::default();
        Self { lock: Err(error), options, permits: 1, label: Label::default() }
    }

    pub(crate) fn with(self, options: Arc<LockOptions>) -> Self {
        Self { options, ..self }
    }

    pub(crate) fn wait(self, wait: Wait) -> Self {
        self.set(|options| options.wait(wait))
    }

    pub(crate) fn lease(self, lease: Lease) -> Self {
        self.set(|options| options.lease(lease))
    }

    fn set(mut self, change: impl FnOnce(LockOptionsBuilder) -> LockOptionsBuilder) -> Self {
        match change(self.options.to_builder()).build() {
            Ok(options) => self.options = Arc::new(options),
            Err(error) => self.lock = self.lock.and(Err(error)),
        }
        self
    }

    /// Returns the same handle, labelled as a lock of that policy.
    pub(crate) fn labelled(self, label: Label) -> Self {
        Self { label, ..self }
    }

    /// Returns the same handle for a call at `site`.
    pub(crate) fn at(self, site: CallSite) -> Self {
        Self { label: self.label.at(site), ..self }
    }

    /// Returns the same handle for several permits of a semaphore.
    pub(crate) fn permits(&self, permits: u32) -> Self {
        Self { permits, ..self.clone() }
    }

    /// Returns how many permits it acquires; 1 if it is no semaphore.
    pub(crate) fn wanted_permits(&self) -> u32 {
        self.permits
    }

    /// Returns the client and its lock.
    ///
    /// # Errors
    ///
    /// Why the lock is invalid.
    pub(crate) fn lock_of(&self) -> Result<(&Arc<Engine>, &Arc<Target>), LockError> {
        let (engine, target) = self.lock.as_ref().map_err(Clone::clone)?;
        Ok((engine, target))
    }

    pub(crate) fn options(&self) -> &Arc<LockOptions> {
        &self.options
    }

    /// Records one acquire at `site`.
    pub(super) fn recorder(&self, target: &Target, site: CallSite) -> AcquireRecorder {
        AcquireRecorder::new(target, self.label.clone().at(site).enforced(true))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> Acquire {
        self.acquire(&self.options, true)
    }

    #[track_caller]
    pub(crate) fn run<F: Future>(&self, body: F) -> RunLocked<F> {
        RunLocked::new(self.lock(), self.options.on_release_lost(), body)
    }

    /// Acquires for a call that is not enforced.
    #[track_caller]
    pub(crate) fn shadow_lock(&self) -> Acquire {
        self.acquire(&Arc::new(self.options.for_a_shadow_lock()), false)
    }

    /// Resolves to `None` if another holder has the lock, or goes first.
    #[track_caller]
    pub(crate) fn try_lock(
        &self,
    ) -> impl Future<Output = Result<Option<LockGuard>, LockError>> + Send + use<> {
        let options = match self.options.wait() {
            Wait::Never => Arc::clone(&self.options),
            _ => Arc::new(self.options.with_wait(Wait::Never)),
        };
        let acquire = self.acquire(&options, true);
        async move {
            match acquire.await {
                Ok(guard) => Ok(Some(guard)),
                Err(LockError::Busy { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// As [`lock`](Self::lock) or, if it is not enforced, [`shadow_lock`](Self::shadow_lock), for a handle that is
    /// used once: the acquire takes over what the handle shares.
    #[track_caller]
    pub(crate) fn into_acquire(self, enforced: bool) -> Acquire {
        match self {
            Self { lock: Ok((engine, target)), options, permits, label } if enforced => {
                let label = label.at(CallSite::caller()).enforced(true);
                Acquire::new(AcquireSpec { engine, target, options, permits, label })
            }
            handle if enforced => handle.lock(),
            handle => handle.shadow_lock(),
        }
    }

    #[track_caller]
    fn acquire(&self, options: &Arc<LockOptions>, enforced: bool) -> Acquire {
        let label = self.label.clone().at(CallSite::caller()).enforced(enforced);
        match &self.lock {
            Ok((engine, target)) => {
                let (engine, target) = (Arc::clone(engine), Arc::clone(target));
                let options = Arc::clone(options);
                Acquire::new(AcquireSpec { engine, target, options, permits: self.permits, label })
            }
            Err(error) => {
                if !enforced {
                    label.not_enforced(error.key().unwrap_or_default(), error);
                }
                Acquire::failed(error.clone())
            }
        }
    }
}

/// `with`, `wait` and `lease` of a kind, whose own `map` changes each of its handles.
macro_rules! lock_settings {
    ($Kind:ident) => {
        impl $Kind {
            /// Returns the same lock with `options` in place of all its options.
            ///
            /// Options in an `Arc` are shared; others are allocated.
            pub fn with(self, options: impl Into<std::sync::Arc<$crate::LockOptions>>) -> Self {
                let options = options.into();
                self.map(|handle| handle.with(std::sync::Arc::clone(&options)))
            }

            /// Returns the same lock with another [`wait`](crate::options::LockOptionsBuilder::wait).
            ///
            /// A wait of zero is invalid; write [`Wait::Never`](crate::Wait::Never). Every acquire of a lock
            /// with an invalid value fails with
            /// [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
            pub fn wait(self, wait: impl Into<$crate::Wait>) -> Self {
                let wait = wait.into();
                self.map(|handle| handle.wait(wait))
            }

            /// Returns the same lock with another [`lease`](crate::options::LockOptionsBuilder::lease).
            ///
            /// A lease lasts from [`MIN_LEASE`](crate::options::MIN_LEASE) to
            /// [`MAX_LEASE`](crate::options::MAX_LEASE). A fixed lease does not allow a longer `at_least`, nor
            /// a `max_hold`, in the other options. Every acquire of a lock with an invalid value fails with
            /// [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
            pub fn lease(self, lease: $crate::Lease) -> Self {
                self.map(|handle| handle.lease(lease))
            }
        }
    };
}
pub(crate) use lock_settings;
