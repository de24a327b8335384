//! Annotated plain functions: as [`call`](super::call), on a thread.

use std::sync::Arc;

use super::body::RunGuard;
use super::returns::Returns;
use super::spec::{About, CallSpec};
use crate::error::LockError;
use crate::own_runtime::block_on;

/// Calls `body` under the lock; any failure of the lock is returned as `returns` says, unless the body has a fallback for a
/// busy lock.
///
/// # Panics
///
/// If there is no client or the caller is an async task, and the return type has no value for that: the body would
/// never run.
#[track_caller]
pub fn called<T, E>(spec: CallSpec, body: impl FnOnce() -> T, returns: Returns<T, E>) -> T {
    if !spec.is_wanted() {
        return body();
    }
    let can_say = returns.can_say();
    let site = spec.site();
    let mut lock = spec.lock(can_say);
    let error = match block_on(&mut lock.acquire) {
        Ok(guard) => {
            let hold = Arc::clone(guard.hold());
            let guard = RunGuard::new(guard, lock.view);
            let result = guard.get().call(lock.enforced, body);
            let result = match guard.into_inner() {
                Some(guard) => guard.release_after(result, lock.terms),
                None => result,
            };
            return result.unwrap_or_else(|error| {
                About::of(&hold).log_failure(&error, can_say, true);
                returns.error(error)
            });
        }
        Err(error) => error,
    };
    if lock.goes_on_without(&error) {
        return body();
    }
    // As without a client: the body would never run, and the caller would not notice.
    if !can_say.errors && matches!(error, LockError::InAsyncTask) {
        panic!("`{}` needs its lock: {error}", site.name());
    }
    if let Some(about) = lock.about {
        about.log_failure(&error, can_say, false);
    }
    returns.error(error)
}
