//! What all kinds of locks have in common: a client, a target, options.

use std::sync::Arc;

use super::{Acquire, AcquireSpec, Engine};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::observe::{AcquireRecorder, Label};
use crate::options::{LockOptions, Wait};
use crate::site::CallSite;
use crate::store::Target;

/// What a try came to: `None` if another holder has the lock, or goes first.
pub(crate) async fn tried(acquire: Acquire) -> Result<Option<LockGuard>, LockError> {
    match acquire.await {
        Ok(guard) => Ok(Some(guard)),
        Err(LockError::Busy { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A way to take one lock, behind each of the kinds.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    engine: Arc<Engine>,
    /// An invalid name is reported by the first use.
    target: Result<Arc<Target>, LockError>,
    options: LockOptions,
    permits: u32,
    label: Label,
}

impl Handle {
    pub(crate) fn new(
        engine: Arc<Engine>,
        target: Result<Arc<Target>, LockError>,
        options: LockOptions,
    ) -> Self {
        let token_ttl = engine.leases.timing.token_ttl;
        let target = target.map(|target| target.with_token_ttl(token_ttl));
        Self { engine, target, options, permits: 1, label: Label::default() }
    }

    pub(crate) fn with(self, options: LockOptions) -> Self {
        Self { options, ..self }
    }

    /// The same, seen as a lock of that policy.
    pub(crate) fn labelled(self, label: Label) -> Self {
        Self { label, ..self }
    }

    /// The same, asked for there.
    pub(crate) fn at(self, site: CallSite) -> Self {
        Self { label: self.label.at(site), ..self }
    }

    /// One acquire of it, as it is seen.
    pub(super) fn recorder(&self, target: &Target, site: CallSite) -> AcquireRecorder {
        AcquireRecorder::new(target, self.label.clone().at(site).enforced(true))
    }

    /// The same for several permits of a semaphore.
    pub(crate) fn permits(&self, permits: u32) -> Self {
        Self { permits, ..self.clone() }
    }

    /// How many permits it takes; one where it is no semaphore.
    pub(crate) fn wanted_permits(&self) -> u32 {
        self.permits
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn target(&self) -> Result<&Arc<Target>, &LockError> {
        self.target.as_ref()
    }

    pub(crate) fn options(&self) -> LockOptions {
        self.options
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> Acquire {
        self.acquire(self.options, true)
    }

    /// For a call that runs in any case.
    #[track_caller]
    pub(crate) fn shadow_lock(&self) -> Acquire {
        self.acquire(self.options.for_a_shadow_lock(), false)
    }

    /// For [`tried`].
    #[track_caller]
    pub(crate) fn try_lock(&self) -> Acquire {
        self.acquire(self.options.with_wait(Wait::Never), true)
    }

    #[track_caller]
    fn acquire(&self, options: LockOptions, enforced: bool) -> Acquire {
        let label = self.label.clone().at(CallSite::caller()).enforced(enforced);
        match &self.target {
            Ok(target) => Acquire::new(AcquireSpec {
                engine: Arc::clone(&self.engine),
                target: Arc::clone(target),
                options,
                permits: self.permits,
                label,
            }),
            Err(error) if enforced => Acquire::failed(error.clone()),
            Err(error) => Acquire::not_enforced(&label, error),
        }
    }
}
