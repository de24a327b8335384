//! [`Handle`]: the part that all kinds of locks share.

use std::ops::Deref;
use std::sync::Arc;

use super::{Acquire, Engine, RunLocked, Unpolled};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::observe::{AcquireRecorder, Label};
use crate::options::{Lease, LockOptions, LockOptionsBuilder, OnReleaseLost, Wait};
use crate::site::CallSite;
use crate::store::Target;

/// A handle of one lock, behind each of the kinds.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    /// What it acquires, or why that is invalid, which the first use reports. The error is boxed to keep handles small.
    spec: Result<Spec, Box<LockError>>,
    permits: u32,
    label: Label,
}

/// What to acquire, how, and by which client.
#[derive(Debug, Clone)]
pub(crate) struct AcquireSpec {
    pub(crate) engine: Arc<Engine>,
    pub(crate) target: Arc<Target>,
    /// Shared by all handles of a client that have its defaults.
    pub(crate) options: Arc<LockOptions>,
}

/// The spec of a handle and its acquires.
#[derive(Debug, Clone)]
pub(crate) enum Spec {
    /// An acquire shares it with its handle, and counts one reference.
    Shared(Arc<AcquireSpec>),
    /// For one acquire: it needs no allocation.
    Once(AcquireSpec),
}

impl Deref for Spec {
    type Target = AcquireSpec;

    fn deref(&self) -> &AcquireSpec {
        match self {
            Self::Shared(spec) => spec,
            Self::Once(spec) => spec,
        }
    }
}

impl Spec {
    pub(super) fn make_mut(&mut self) -> &mut AcquireSpec {
        match self {
            Self::Shared(spec) => Arc::make_mut(spec),
            Self::Once(spec) => spec,
        }
    }

    /// The same with other options.
    fn with(mut self, options: Arc<LockOptions>) -> Self {
        self.make_mut().options = options;
        self
    }

    /// The same with other options, for one acquire.
    pub(super) fn once_with(&self, options: LockOptions) -> Self {
        Self::Once(AcquireSpec { options: Arc::new(options), ..AcquireSpec::clone(self) })
    }
}

impl Handle {
    /// A lock of any number of acquires.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        target: Result<Arc<Target>, LockError>,
        options: Arc<LockOptions>,
    ) -> Self {
        Self::of(engine, target, options, |spec| Spec::Shared(Arc::new(spec)))
    }

    /// A lock of one acquire.
    pub(crate) fn once(
        engine: &Arc<Engine>,
        target: Result<Arc<Target>, LockError>,
        options: Arc<LockOptions>,
    ) -> Self {
        Self::of(engine, target, options, Spec::Once)
    }

    #[inline]
    fn of(
        engine: &Arc<Engine>,
        target: Result<Arc<Target>, LockError>,
        options: Arc<LockOptions>,
        spec: impl FnOnce(AcquireSpec) -> Spec,
    ) -> Self {
        let target = match target {
            Ok(target) => target.with_token_ttl(engine.leases.timing.token_ttl),
            Err(error) => return Self::invalid(error),
        };
        let spec = Ok(spec(AcquireSpec { engine: Arc::clone(engine), target, options }));
        Self { spec, permits: 1, label: Label::default() }
    }

    /// A lock whose every acquire fails with `error`.
    pub(crate) fn invalid(error: LockError) -> Self {
        Self { spec: Err(Box::new(error)), permits: 1, label: Label::default() }
    }

    pub(crate) fn with(self, options: Arc<LockOptions>) -> Self {
        Self { spec: self.spec.map(|spec| spec.with(options)), ..self }
    }

    pub(crate) fn wait(self, wait: Wait) -> Self {
        self.set(|options| options.wait(wait))
    }

    pub(crate) fn lease(self, lease: Lease) -> Self {
        self.set(|options| options.lease(lease))
    }

    fn set(self, change: impl FnOnce(LockOptionsBuilder) -> LockOptionsBuilder) -> Self {
        let spec = self.spec.and_then(|spec| {
            let options = change(spec.options.to_builder()).build()?;
            Ok(spec.with(Arc::new(options)))
        });
        Self { spec, ..self }
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

    /// Returns what it acquires.
    ///
    /// # Errors
    ///
    /// Why the lock is invalid.
    pub(crate) fn spec(&self) -> Result<&Spec, LockError> {
        self.spec.as_ref().map_err(|error| LockError::clone(error))
    }

    /// What becomes of a result whose lock was lost before its release.
    pub(crate) fn on_release_lost(&self) -> OnReleaseLost {
        self.spec
            .as_ref()
            .map_or_else(|_| OnReleaseLost::default(), |spec| spec.options.on_release_lost())
    }

    /// Records one acquire at `site`.
    pub(super) fn recorder(&self, target: &Target, site: CallSite) -> AcquireRecorder {
        AcquireRecorder::new(target, self.label.clone().at(site).enforced(true))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> Acquire {
        self.acquire(true, Spec::clone)
    }

    #[track_caller]
    pub(crate) fn run<F: Future>(&self, body: F) -> RunLocked<F> {
        RunLocked::new(self.lock(), self.on_release_lost(), body)
    }

    /// Acquires for a call that is not enforced.
    #[track_caller]
    pub(crate) fn shadow_lock(&self) -> Acquire {
        self.acquire(false, |spec| spec.once_with(spec.options.for_a_shadow_lock()))
    }

    /// Resolves to `None` if another holder has the lock, or goes first.
    #[track_caller]
    pub(crate) fn try_lock(
        &self,
    ) -> impl Future<Output = Result<Option<LockGuard>, LockError>> + Send + use<> {
        let acquire = self.acquire(true, |spec| match spec.options.wait() {
            Wait::Never => spec.clone(),
            _ => spec.once_with(spec.options.with_wait(Wait::Never)),
        });
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
            Self { spec: Ok(spec), permits, label } if enforced => {
                let label = label.at(CallSite::caller()).enforced(true);
                Acquire::new(Unpolled { spec, permits, label })
            }
            handle if enforced => handle.lock(),
            handle => handle.shadow_lock(),
        }
    }

    /// Acquires what `change` makes of the handle's own.
    #[track_caller]
    fn acquire(&self, enforced: bool, change: impl FnOnce(&Spec) -> Spec) -> Acquire {
        let label = self.label.clone().at(CallSite::caller()).enforced(enforced);
        match &self.spec {
            Ok(spec) => Acquire::new(Unpolled { spec: change(spec), permits: self.permits, label }),
            Err(error) => {
                if !enforced {
                    label.not_enforced(error.key().unwrap_or_default(), error);
                }
                Acquire::failed(LockError::clone(error))
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
