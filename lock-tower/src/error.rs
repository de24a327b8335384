//! [`LockServiceError`].

use std::convert::Infallible;
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
    /// The inner service failed. Its error may be boxed and then is no [`Error`] itself, so
    /// [`source`](Error::source) does not return it: match on this variant.
    #[error("{0}")]
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

    /// Returns the error in a box: an error of the lock as the [`LockError`], an error of the inner service as it is.
    ///
    /// `?` boxes a `LockServiceError` as well, but then a caller has to downcast to that type first.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockClient, LockError, LockKey, LockOptions, Wait};
    /// use lock_tower::{LockLayer, LockServiceError};
    /// use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
    ///
    /// let locks = LockClient::in_memory();
    /// let layer = LockLayer::new(locks.clone(), |_: &u64| LockKey::new("stock").map(Some));
    /// let service = ServiceBuilder::new()
    ///     .map_err(LockServiceError::into_boxed)
    ///     .layer(layer.options(LockOptions::new().wait(Wait::None)))
    ///     .service(service_fn(|pieces: u64| async move { Ok::<_, BoxError>(pieces) }));
    ///
    /// let _other = locks.mutex("stock").lock().await?;
    /// let error: BoxError = service.oneshot(7).await.unwrap_err();
    /// assert!(error.downcast_ref::<LockError>().is_some_and(LockError::is_busy));
    /// # Ok::<_, BoxError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[must_use]
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        match self {
            Self::Lock(error) => Box::new(error),
            Self::Key(error) => Box::new(LockServiceError::<Infallible>::Key(error)),
            Self::Inner(error) => error.into(),
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
