//! [`Handle`]: what all kinds of locks have in common.

use std::sync::Arc;

use super::{Acquire, AcquireSpec, Engine};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::observe::{AcquireRecorder, Label};
use crate::options::{LockOptions, Wait};
use crate::site::CallSite;
use crate::store::Target;

/// A way to take one lock, behind each of the kinds.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    /// The client and its lock; an invalid lock is reported by the first use.
    lock: Result<(Arc<Engine>, Arc<Target>), LockError>,
    options: LockOptions,
    permits: u32,
    label: Label,
}

impl Handle {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        target: Result<Arc<Target>, LockError>,
        options: LockOptions,
    ) -> Self {
        let token_ttl = engine.leases.timing.token_ttl;
        let lock = target.map(|target| (Arc::clone(engine), target.with_token_ttl(token_ttl)));
        Self { lock, options, permits: 1, label: Label::default() }
    }

    /// A lock that cannot be taken.
    pub(crate) fn invalid(error: LockError) -> Self {
        let options = LockOptions::default();
        Self { lock: Err(error), options, permits: 1, label: Label::default() }
    }

    pub(crate) fn with(self, options: LockOptions) -> Self {
        Self { options, ..self }
    }

    /// The same, seen as a lock of that policy.
    pub(crate) fn labelled(self, label: Label) -> Self {
        Self { label, ..self }
    }

    /// The same, asked for at `site`.
    pub(crate) fn at(self, site: CallSite) -> Self {
        Self { label: self.label.at(site), ..self }
    }

    /// The same for several permits of a semaphore.
    pub(crate) fn permits(&self, permits: u32) -> Self {
        Self { permits, ..self.clone() }
    }

    /// How many permits it takes; 1 if it is no semaphore.
    pub(crate) fn wanted_permits(&self) -> u32 {
        self.permits
    }

    /// The client and its lock.
    ///
    /// # Errors
    ///
    /// Why the lock is invalid.
    pub(crate) fn lock_of(&self) -> Result<(&Arc<Engine>, &Arc<Target>), LockError> {
        let (engine, target) = self.lock.as_ref().map_err(Clone::clone)?;
        Ok((engine, target))
    }

    pub(crate) fn options(&self) -> LockOptions {
        self.options
    }

    /// Records one acquire at `site`.
    pub(super) fn recorder(&self, target: &Target, site: CallSite) -> AcquireRecorder {
        AcquireRecorder::new(target, self.label.clone().at(site).enforced(true))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> Acquire {
        self.acquire(self.options, true)
    }

    /// For a call that is not enforced.
    #[track_caller]
    pub(crate) fn shadow_lock(&self) -> Acquire {
        self.acquire(self.options.for_a_shadow_lock(), false)
    }

    /// Resolves to `None` if another holder has the lock, or goes first.
    #[track_caller]
    pub(crate) fn try_lock(
        &self,
    ) -> impl Future<Output = Result<Option<LockGuard>, LockError>> + Send + use<> {
        let acquire = self.acquire(self.options.with_wait(Wait::Never), true);
        async move {
            match acquire.await {
                Ok(guard) => Ok(Some(guard)),
                Err(LockError::Busy { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    #[track_caller]
    fn acquire(&self, options: LockOptions, enforced: bool) -> Acquire {
        let label = self.label.clone().at(CallSite::caller()).enforced(enforced);
        match &self.lock {
            Ok((engine, target)) => {
                let (engine, target) = (Arc::clone(engine), Arc::clone(target));
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
