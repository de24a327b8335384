//! Locks whose kind is a value.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::LockClient;
use crate::acquire::{Acquire, Handle};
use crate::any_lock::AnyLock;
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::multi_lock::MultiLock;
use crate::observe::label::LayerLabel;
use crate::options::{LockKind, LockOptions};
use crate::store::{HoldKind, Target};

impl LockClient {
    /// Returns the lock of that kind and name or, of several names, a lock that acquires all or none. Cheap for
    /// one name and for mutexes; several names of another kind cost what [`MultiLock::of`] does. Locking it
    /// fails if a name is invalid or there is none.
    pub fn any_lock<N: IntoLockKey>(
        &self,
        kind: LockKind,
        names: impl IntoIterator<Item = N>,
    ) -> AnyLock {
        let mut names = names.into_iter().map(IntoLockKey::into_lock_key);
        match (names.next(), names.next()) {
            (Some(name), None) => AnyLock::new(self.one(kind, name, self.shared_options())),
            (first, second) => {
                self.any_lock_of_all(kind, first.into_iter().chain(second).chain(names))
            }
        }
    }

    /// As [`any_lock`](Self::any_lock) for several names. A `Vec` of them is not copied.
    pub(crate) fn any_lock_of_all<N: IntoLockKey>(
        &self,
        kind: LockKind,
        names: impl IntoIterator<Item = N>,
    ) -> AnyLock {
        AnyLock::new(match kind {
            LockKind::Mutex => self.multi_lock(names).into_handle(),
            _ => {
                let names = names.into_iter().map(IntoLockKey::into_lock_key);
                let one = |name| self.one(kind, name, self.shared_options());
                MultiLock::of(names.map(|name| one(name).into())).into_handle()
            }
        })
    }

    /// Returns the lock of that kind and name, with `options` in place of the client's: as
    /// [`any_lock`](Self::any_lock) and [`AnyLock::with`], but without a look at the options that it replaces. For
    /// code that makes a lock for each call.
    pub(crate) fn any_lock_with(
        &self,
        kind: LockKind,
        key: LockKey,
        options: Arc<LockOptions>,
    ) -> AnyLock {
        AnyLock::new(Handle::once(&self.engine, self.target(kind, Ok(key)), options))
    }

    /// Starts an acquire for one call of a layer; if it is not enforced, as [`AnyLock::shadow_lock`] does.
    pub(crate) fn acquire_for_layer(
        &self,
        label: &LayerLabel,
        kind: LockKind,
        key: LockKey,
        options: Arc<LockOptions>,
        enforced: bool,
    ) -> Acquire {
        let target = self.target(kind, Ok(key));
        Handle::once(&self.engine, target, options).labelled(label.label()).into_acquire(enforced)
    }

    pub(super) fn one(
        &self,
        kind: LockKind,
        name: Result<LockKey, LockError>,
        options: Arc<LockOptions>,
    ) -> Handle {
        Handle::new(&self.engine, self.target(kind, name), options)
    }

    fn target(
        &self,
        kind: LockKind,
        name: Result<LockKey, LockError>,
    ) -> Result<Arc<Target>, LockError> {
        let limit = match kind {
            LockKind::Semaphore(limit) => limit,
            _ => 1,
        };
        let Some(limit) = NonZeroU32::new(limit) else {
            let problem = "a semaphore of 0 permits; give it at least one";
            return Err(LockError::InvalidOptions(problem.to_owned()));
        };
        let target = |key| match kind {
            LockKind::Mutex => Target::mutex(key),
            LockKind::Fair => Target::fair(key),
            LockKind::Read => Target::side(HoldKind::Read, key),
            LockKind::Write => Target::side(HoldKind::Write, key),
            LockKind::Semaphore(_) => Target::semaphore(key, limit),
        };
        name.and_then(|key| self.full_name(key)).map(target)
    }
}
