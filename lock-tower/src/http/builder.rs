//! [`HttpLockLayerBuilder`]: everything an HTTP layer can be told, checked once.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;
use lock_runtime::{LockClient, LockKey, LockOptions};

use super::key::{KeyError, KeyFn, KeySource, OnMissing};
use super::layer::{HttpLockLayer, Settings};
use super::route::Route;
use super::template::Template;
use crate::locked::RELEASE_TIMEOUT;

/// What is wrong with a layer: one sentence that says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BuildError(String);

impl BuildError {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

/// Builds an [`HttpLockLayer`]: see [`LockLayer::http`](crate::LockLayer::http).
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct HttpLockLayerBuilder {
    client: Option<LockClient>,
    options: Option<LockOptions>,
    key: Option<Key>,
    route: Option<String>,
    methods: Vec<Method>,
    on_missing: OnMissing,
    release_timeout: Duration,
}

#[derive(Clone)]
enum Key {
    Template(String),
    Function(Arc<KeyFn>),
}

impl HttpLockLayerBuilder {
    pub(crate) fn new() -> Self {
        Self {
            client: None,
            options: None,
            key: None,
            route: None,
            methods: vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE],
            on_missing: OnMissing::default(),
            release_timeout: RELEASE_TIMEOUT,
        }
    }

    /// What to lock, as a template: `"order:{path.id}:{header.x-tenant}"`.
    ///
    /// There are `{method}`, `{path.<parameter>}` and `{header.<name>}`; `{{` and `}}` are braces.
    /// Values are escaped, so that no request can name another's lock. A header that comes more than
    /// once, is empty, or is not visible ASCII is refused with 400. A value is the text that the
    /// request has: `/orders/7` and `/orders/007` are two locks. Where the handler takes them for one
    /// order, have an annotated function lock what the handler has parsed.
    ///
    /// `{path.…}` needs to know the route: with the feature `axum` it asks the router, also a nested
    /// one; without it, [`route`](Self::route) says it.
    pub fn key(mut self, template: impl Into<String>) -> Self {
        self.key = Some(Key::Template(template.into()));
        self
    }

    /// What to lock, by a closure over the request's head; in place of a template. `None` lets the
    /// request through without a lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockClient, LockKey};
    /// use lock_tower::LockLayer;
    /// use lock_tower::http::KeyError;
    ///
    /// #[derive(Clone)]
    /// struct Tenant(u32); // put there by the authentication layer outside
    ///
    /// let layer = LockLayer::http()
    ///     .client(LockClient::in_memory())
    ///     .key_fn(|request| {
    ///         let Some(Tenant(tenant)) = request.extensions.get() else {
    ///             return Err(KeyError::Missing("tenant".into()));
    ///         };
    ///         Ok(Some(LockKey::builder().text("tenant:").part(tenant).build()?))
    ///     })
    ///     .build()?;
    /// # Ok::<_, lock_tower::http::BuildError>(())
    /// ```
    pub fn key_fn<F>(mut self, key: F) -> Self
    where
        F: Fn(&Parts) -> Result<Option<LockKey>, KeyError> + Send + Sync + 'static,
    {
        self.key = Some(Key::Function(Arc::new(key)));
        self
    }

    /// The route that `{path.…}` refers to, as `"/orders/{id}/pay"` or `"/files/{*path}"`, where no
    /// router says so, or in place of what it says. It is matched against the path as this layer
    /// sees it, which is without the prefix inside a nested router.
    ///
    /// A request with another path lacks the parameters: see [`on_missing`](Self::on_missing).
    pub fn route(mut self, pattern: impl Into<String>) -> Self {
        self.route = Some(pattern.into());
        self
    }

    /// Where the locks are. Default: [`LockClient::current`] at the time of each request, and where
    /// there is none the answer is 500.
    pub fn client(mut self, client: LockClient) -> Self {
        self.client = Some(client);
        self
    }

    /// How long to wait for the lock, how long to hold it, what to do when it is lost. With
    /// [`Wait::Never`](lock_runtime::Wait::Never) a busy lock is answered with 409, else with 503
    /// once the wait is over. Default: as the client has it.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Which requests to lock; all others pass. Default: POST, PUT, PATCH and DELETE.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// What becomes of a request that lacks a header, or whose path is not the
    /// [`route`](Self::route)'s. Default: [`OnMissing::Reject`].
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// How long a finished response waits for the store to confirm the release. Longer keeps a
    /// sequential client from finding its own lock busy when the store is slow; shorter answers
    /// sooner then. The release goes on in the background either way. Default: 250 ms.
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        self.release_timeout = release_timeout;
        self
    }

    /// Checks everything and makes the layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if there is no key, its template is broken, it names a placeholder that does
    /// not exist or a path parameter that the route does not have, the route is broken, or no
    /// method is left.
    pub fn build(self) -> Result<HttpLockLayer, BuildError> {
        let route = self.route.as_deref().map(Route::parse).transpose()?;
        let key = match self.key {
            None => {
                return Err(BuildError::new(
                    "the layer has no key; say what to lock with `key(\"order:{path.id}\")` or \
                     `key_fn`",
                ));
            }
            Some(Key::Function(_)) if route.is_some() => {
                return Err(BuildError::new(
                    "`route` is for the `{path.…}` of a key template, and the key is a closure; \
                     leave one of them out",
                ));
            }
            Some(Key::Function(function)) => KeySource::Function(function),
            Some(Key::Template(text)) => {
                let template = Template::parse(&text)?;
                check_parameters(&template, route.as_ref())?;
                KeySource::Template { template, route }
            }
        };
        if self.methods.is_empty() {
            return Err(BuildError::new(
                "the layer locks no method; name some, or leave the layer out",
            ));
        }
        Ok(HttpLockLayer::new(Settings {
            client: self.client,
            options: self.options,
            key,
            methods: self.methods,
            on_missing: self.on_missing,
            release_timeout: self.release_timeout,
        }))
    }
}

/// Every `{path.…}` must have a route to come from.
fn check_parameters(template: &Template, route: Option<&Route>) -> Result<(), BuildError> {
    let Some(route) = route else {
        return match template.path_parameters().next() {
            Some(name) if !cfg!(feature = "axum") => Err(BuildError::new(format!(
                "`{{path.{name}}}` needs a route; give it with `route(\"/…/{{{name}}}\")`, or \
                 switch on the feature `axum` to have the router say it"
            ))),
            _ => Ok(()),
        };
    };
    let unknown = |name: &&str| !route.parameters().any(|parameter| parameter == *name);
    let Some(name) = template.path_parameters().find(unknown) else { return Ok(()) };
    let known: Vec<_> = route.parameters().map(|name| format!("`{{path.{name}}}`")).collect();
    let known = if known.is_empty() { "no parameters".to_owned() } else { known.join(", ") };
    Err(BuildError::new(format!(
        "`{{path.{name}}}` is not in the route `{route}`, which has {known}"
    )))
}

impl std::fmt::Debug for HttpLockLayerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLockLayerBuilder")
            .field("client", &self.client)
            .field("options", &self.options)
            .field("route", &self.route)
            .field("methods", &self.methods)
            .field("on_missing", &self.on_missing)
            .field("release_timeout", &self.release_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> HttpLockLayerBuilder {
        HttpLockLayerBuilder::new()
    }

    #[test]
    fn impossible_layers_say_why() {
        let function = http().key_fn(|_| Ok(None));
        for (builder, reason) in [
            (http(), "the layer has no key"),
            (http().key("{nope}"), "unknown placeholder `{nope}`"),
            (http().key("a").methods([]), "locks no method"),
            (http().key("a").route("orders"), "does not begin with `/`"),
            (function.route("/{id}"), "the key is a closure"),
            (
                http().key("{path.id}").route("/{order}/{item}"),
                "`{path.id}` is not in the route `/{order}/{item}`, which has `{path.order}`, \
                 `{path.item}`",
            ),
            (http().key("{path.id}").route("/"), "which has no parameters"),
        ] {
            let message = builder.build().unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn path_parameters_need_somebody_who_knows_them() {
        let layer = http().key("order:{path.id}").build();
        if cfg!(feature = "axum") {
            assert!(layer.is_ok());
        } else {
            let message = layer.unwrap_err().to_string();
            assert!(message.contains("`{path.id}` needs a route"), "{message}");
        }
        assert!(http().key("order:{path.id}").route("/orders/{id}").build().is_ok());
    }
}
