//! The error of a name that holds something else than was asked for.

use futures_util::future::BoxFuture;

use super::AcquireSpec;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::lease::manager::LeaseManager;
use crate::store::{HoldKind, Inspection, Target};

impl AcquireSpec {
    /// Returns the error for what the store has answered. Collisions are rare, so the store is then asked what is there: of
    /// several locks, each in turn. Boxed, as no acquire should have the room for it.
    pub(super) fn collision(&self, error: StoreError) -> BoxFuture<'_, LockError> {
        Box::pin(async move {
            let target = &self.target;
            if error.kind() != StoreErrorKind::WrongType {
                return LockError::Store(error);
            }
            for lock in target.locks() {
                let LeaseManager { store, timing, .. } = &*self.engine.leases;
                let found = match store.inspect(lock.key(), timing.command_timeout).await {
                    Ok(Inspection { kind: Some(kind), .. }) if is_in_the_way(kind, lock) => {
                        StoreError::new(
                            StoreErrorKind::WrongType,
                            format!("the key holds a {kind}"),
                        )
                    }
                    Ok(_) => continue,
                    Err(found) if found.kind() == StoreErrorKind::WrongType => found,
                    // The others would have to wait for this store, too.
                    Err(_) => break,
                };
                return found.about(lock.key(), Some(lock.kind()));
            }
            error.about(target.key(), Some(target.kind()))
        })
    }
}

/// True if `lock` cannot be acquired where a lock of that kind is held.
fn is_in_the_way(kind: HoldKind, lock: &Target) -> bool {
    use HoldKind::{Read, Write};
    match (lock.kind(), kind) {
        (Read | Write, Read | Write) => false,
        (asked, kind) => asked != kind,
    }
}
