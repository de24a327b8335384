//! The error of a name that holds something else than was asked for.

use futures_util::future::BoxFuture;

use super::AcquireSpec;
use crate::error::{LockError, StoreError, StoreErrorKind};
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
            for (client, lock) in target.locks_at_home(self.engine.leases.id) {
                let Some(store) = self.engine.store_of(client) else { continue };
                let timeout = self.engine.leases.timing.command_timeout;
                let found = match store.inspect(lock.key(), timeout).await {
                    Ok(Inspection { kind: Some(kind), .. }) if self.is_in_the_way(kind, lock) => {
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

    /// True if `lock` cannot be acquired where a lock of that kind is held, and this is certain or there is no other lock.
    fn is_in_the_way(&self, kind: HoldKind, lock: &Target) -> bool {
        use HoldKind::{Fair, Mutex, Read, Write};
        match (lock.kind(), kind) {
            (Read | Write, Read | Write) => false,
            // The store may take a fair mutex for a plain one.
            (Fair, Mutex) => self.target.members().is_empty(),
            (asked, kind) => asked != kind,
        }
    }
}
