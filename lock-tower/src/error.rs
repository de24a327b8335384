//! [`LockServiceError`].

use std::error::Error;
use std::sync::Arc;

use lock_runtime::LockError;

/// The error of a [`LockService`](crate::LockService): the lock's, or the inner service's own.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockServiceError<E> {
    /// The lock was not acquired, and the inner service was not called; or the hold was lost
    /// ([`LockError::Lost`]), and the call was dropped before its end.
    #[error("the service call was not run to its end under its lock")]
    Lock(#[source] LockError),
    /// The key function failed, and the inner service was not called.
    #[error("the service call has no lock key")]
    Key(#[source] Arc<dyn Error + Send + Sync>),
    /// The inner service failed.
    #[error(transparent)]
    Inner(E),
}

impl<E> LockServiceError<E> {
    /// Returns the lock's error, if this is one.
    #[must_use]
    pub fn lock_error(&self) -> Option<&LockError> {
        match self {
            Self::Lock(error) => Some(error),
            Self::Key(_) | Self::Inner(_) => None,
        }
    }

    /// Converts an error of a key function, which may be a [`LockError`].
    pub(crate) fn from_key_error(error: Box<dyn Error + Send + Sync>) -> Self {
        match error.downcast::<LockError>() {
            Ok(error) => Self::Lock(*error),
            Err(error) => Self::Key(Arc::from(error)),
        }
    }
}

impl<E> From<LockError> for LockServiceError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}
