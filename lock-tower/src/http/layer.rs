//! [`HttpLockLayer`].

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;
use lock_runtime::{LockClient, LockError, LockKey, LockOptions};
use tower_layer::Layer;

use super::builder::HttpLockLayerBuilder;
use super::key::{KeyError, KeySource, OnMissing};
use super::retry::HoldTimes;
use super::service::HttpLockService;
use crate::layer::LockLayer;
use crate::locked::Terms;

impl LockLayer {
    /// Starts a layer for HTTP services. See the [module documentation](crate::http).
    pub fn http() -> HttpLockLayerBuilder {
        HttpLockLayerBuilder::new()
    }
}

/// Runs each HTTP request under the lock that it names, and answers where that cannot be had.
///
/// Made by [`LockLayer::http`]; see the [module documentation](crate::http). Clones share what they
/// know about how long locks are held.
#[derive(Debug, Clone)]
pub struct HttpLockLayer {
    shared: Arc<Shared>,
}

/// What all services of a layer share.
#[derive(Debug)]
pub(super) struct Shared {
    settings: Settings,
    pub(super) times: HoldTimes,
}

/// What a layer was told.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) client: Option<LockClient>,
    pub(super) options: Option<LockOptions>,
    pub(super) key: KeySource,
    pub(super) methods: Vec<Method>,
    pub(super) on_missing: OnMissing,
    pub(super) release_timeout: Duration,
}

impl HttpLockLayer {
    pub(super) fn new(settings: Settings) -> Self {
        Self { shared: Arc::new(Shared { settings, times: HoldTimes::default() }) }
    }
}

impl<S> Layer<S> for HttpLockLayer {
    type Service = HttpLockService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        HttpLockService::new(inner, Arc::clone(&self.shared))
    }
}

impl Shared {
    pub(super) fn locks(&self, method: &Method) -> bool {
        self.settings.methods.contains(method)
    }

    pub(super) fn key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        self.settings.key.key(parts, self.settings.on_missing)
    }

    /// The terms of a lock that is taken now.
    pub(super) fn terms(&self) -> Result<Terms, LockError> {
        let client = match &self.settings.client {
            Some(client) => client.clone(),
            None => LockClient::current().ok_or_else(|| LockError::NoClient {
                site: "a `LockLayer::http()` without `client(…)`".to_owned(),
            })?,
        };
        let options = self.settings.options.unwrap_or_else(|| client.options());
        Ok(Terms { client, options, release_timeout: self.settings.release_timeout })
    }
}
