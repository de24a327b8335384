//! Acquiring for a call that runs in any case (`enforce`): the lock is taken if it is free, and the call
//! is not held up, neither by whoever has it nor by the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::attempt::known_as;
use super::{Engine, PendingAcquire};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::lease::circuit_breaker::{SHADOW_TIMEOUT, unanswered};
use crate::store::{ReleaseRequest, Target};

impl PendingAcquire {
    /// As [`run`](Self::run), for a call that is not to wait.
    pub(super) async fn shadow_lock(self) -> Result<LockGuard, LockError> {
        let (engine, target) = (Arc::clone(&self.engine), Arc::clone(&self.target));
        let taken = engine.shadow_lock(&target, self.take()).await;
        self.report(taken)
    }
}

impl Engine {
    /// What `asking` the store about this lock comes to, unless it would take time. Given up half way,
    /// what it took is given back.
    // S-21.
    pub(super) async fn shadow_lock<T>(
        &self,
        target: &Arc<Target>,
        asking: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let breaker = &self.leases.breaker;
        if breaker.is_clear() {
            return breaker.within_shadow_timeout(asking).await;
        }
        self.probe(target);
        Err(unanswered("of late, and is not asked").into())
    }

    /// Has a task ask the store for a sign of life, if none does.
    fn probe(&self, target: &Arc<Target>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(probe) = self.leases.breaker.probe() else { return };
        let owner = self.next_owner(1);
        let request = ReleaseRequest {
            target: known_as(target, &owner),
            owner,
            keep: Duration::ZERO,
            timeout: SHADOW_TIMEOUT,
        };
        runtime.spawn(probe.run(Arc::clone(&self.leases.store), request));
    }
}
