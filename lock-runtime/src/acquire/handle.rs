//! [`Handle`]: the part that all kinds of locks share.

use std::ops::Deref;
use std::sync::Arc;

use super::{Acquire, Engine, Run, TryRun, Unpolled};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::observe::{AcquireRecorder, Label};
use crate::options::{LockOptions, ReleaseTerms, Wait};
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
    /// Several locks, which are acquired in turn: the name of all, their options, and the client of the first; and the parts.
    InTurn(Box<AcquireSpec>, Arc<[Part]>),
}

/// What one request acquires of several locks: a lock of one client, or its mutexes.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) engine: Arc<Engine>,
    pub(crate) target: Arc<Target>,
    pub(crate) permits: u32,
}

impl Deref for Spec {
    type Target = AcquireSpec;

    fn deref(&self) -> &AcquireSpec {
        match self {
            Self::Shared(spec) => spec,
            Self::Once(spec) => spec,
            Self::InTurn(whole, _) => whole,
        }
    }
}

impl Spec {
    /// What it acquires in turn, if that is several locks: at least two parts.
    pub(super) fn parts(&self) -> Option<&Arc<[Part]>> {
        match self {
            Self::InTurn(_, parts) => Some(parts),
            Self::Shared(_) | Self::Once(_) => None,
        }
    }

    pub(super) fn make_mut(&mut self) -> &mut AcquireSpec {
        match self {
            Self::Shared(spec) => Arc::make_mut(spec),
            Self::Once(spec) => spec,
            Self::InTurn(whole, _) => whole,
        }
    }

    /// The same with other options.
    fn with(mut self, options: Arc<LockOptions>) -> Self {
        self.make_mut().options = options;
        self
    }

    /// The same with other options, for one acquire.
    pub(super) fn once_with(&self, options: LockOptions) -> Self {
        let options = Arc::new(options);
        match self {
            Self::InTurn(..) => self.clone().with(options),
            _ => Self::Once(AcquireSpec { options, ..AcquireSpec::clone(self) }),
        }
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

    /// Several locks that are acquired in turn: at least two parts.
    pub(crate) fn in_turn(whole: AcquireSpec, parts: Arc<[Part]>) -> Self {
        let spec = Ok(Spec::InTurn(Box::new(whole), parts));
        Self { spec, permits: 1, label: Label::default() }
    }

    /// A lock whose every acquire fails with `error`.
    pub(crate) fn invalid(error: LockError) -> Self {
        Self { spec: Err(Box::new(error)), permits: 1, label: Label::default() }
    }

    /// The same with these options in place of its own.
    pub(crate) fn with(self, options: Arc<LockOptions>) -> Self {
        Self { spec: self.spec.map(|spec| spec.with(options)), ..self }
    }

    /// The same with these options over its own.
    pub(crate) fn with_over(self, options: LockOptions) -> Self {
        let over = |spec: Spec| {
            let options = options.over_shared(&spec.options);
            spec.with(options)
        };
        Self { spec: self.spec.map(over), ..self }
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

    /// How the release after a body ends.
    pub(crate) fn release_terms(&self) -> ReleaseTerms {
        self.spec.as_ref().map_or(ReleaseTerms::LOG, |spec| spec.options.release_terms())
    }

    /// Records one acquire at `site`.
    pub(super) fn recorder(&self, target: &Target, site: CallSite) -> AcquireRecorder {
        AcquireRecorder::new(target, self.label.clone().at(site).enforced(true))
    }

    // Not an async function, nor is any that acquires: only a plain one passes on whose line called it.
    #[track_caller]
    pub(crate) fn lock(&self) -> Acquire {
        self.acquire(true, Spec::clone)
    }

    #[track_caller]
    pub(crate) fn run<F: Future>(&self, body: F) -> Run<'static, F> {
        Run::new(self.lock(), self.release_terms(), body)
    }

    #[track_caller]
    pub(crate) fn try_run<F: Future>(&self, body: F) -> TryRun<F> {
        TryRun::new(self.run(body))
    }

    /// Acquires for a call that is not enforced.
    #[track_caller]
    pub(crate) fn shadow_lock(&self) -> Acquire {
        self.acquire(false, |spec| {
            spec.once_with(LockOptions::clone(&spec.options).for_a_shadow_lock())
        })
    }

    /// Resolves to `None` if another holder has the lock, or goes first.
    #[track_caller]
    pub(crate) fn try_lock(&self) -> Acquire<Option<LockGuard>> {
        self.acquire(true, |spec| match spec.options.get_wait() {
            Wait::None => spec.clone(),
            _ => spec.once_with(LockOptions::clone(&spec.options).wait(Wait::None)),
        })
    }

    /// As [`lock`](Self::lock) or, if it is not enforced, [`shadow_lock`](Self::shadow_lock), for a handle that is
    /// used once: the acquire takes over what the handle shares.
    #[track_caller]
    pub(crate) fn into_acquire(self, enforced: bool) -> Acquire {
        match self {
            Self { spec: Ok(spec), permits, label } if enforced && spec.options.check().is_ok() => {
                let label = label.at(CallSite::caller()).enforced(true);
                Acquire::new(Unpolled { spec, permits, label })
            }
            handle if enforced => handle.lock(),
            handle => handle.shadow_lock(),
        }
    }

    /// Acquires what `change` makes of the handle's own.
    #[track_caller]
    fn acquire<T>(&self, enforced: bool, change: impl FnOnce(&Spec) -> Spec) -> Acquire<T> {
        let label = self.label.clone().at(CallSite::caller()).enforced(enforced);
        match self.spec().and_then(|spec| spec.options.check().map(|()| spec)) {
            Ok(spec) => Acquire::new(Unpolled { spec: change(spec), permits: self.permits, label }),
            Err(error) => {
                if !enforced {
                    label.not_enforced(error.key().unwrap_or_default(), &error);
                }
                Acquire::failed(error)
            }
        }
    }
}

/// `with`, and setters for the options that are chosen for one lock. A kind's own `map` changes each of its handles.
macro_rules! lock_options {
    ($Kind:ident) => {
        impl $Kind {
            /// Returns the same lock with `options` over its own: what they set counts, and the rest stays as it is.
            ///
            /// Every acquire of a lock whose options contradict each other fails with
            /// [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
            pub fn with(self, options: $crate::LockOptions) -> Self {
                self.map(|handle| handle.with_over(options.clone()))
            }
        }

        $crate::acquire::option_setters! { $Kind;
            wait: impl Into<$crate::Wait>;
            lease: impl Into<$crate::Lease>;
            max_hold: ::std::time::Duration;
            at_least: ::std::time::Duration;
            on_lost: $crate::options::OnLost;
        }
    };
}
pub(crate) use lock_options;

macro_rules! option_setters {
    ($Kind:ident; $($name:ident: $given:ty;)*) => {
        impl $Kind {
            $(
                #[doc = concat!(
                    "Returns the same lock with another `", stringify!($name), "`: see [`LockOptions::",
                    stringify!($name), "`](crate::LockOptions::", stringify!($name), ")."
                )]
                pub fn $name(self, $name: $given) -> Self {
                    self.with($crate::LockOptions::new().$name($name))
                }
            )*
        }
    };
}
pub(crate) use option_setters;
