//! How the requests of a layer or of a route are locked: the settings of the code and, if the layer follows
//! policies, those of the configuration.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode};
use lock_runtime::__layer_v1::{
    self as runtime, EffectivePolicy, LayerConfig, LayerLabel, LayerSite,
};
use lock_runtime::observe::NO_POLICY;
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions, Wait};
use tokio::time::Instant;

use crate::held::HoldTimes;
use crate::http::answer::RefusalContext;
use crate::http::checks::looks_like_address;
use crate::http::error::{KeyError, invalid};
use crate::http::http_settings::{HttpSettings, Key};
use crate::http::key::{ExtensionParts, KeySource};
use crate::http::route::Route;
use crate::http::settings::{HttpPolicy, LockRoute, OnDisconnect, OnMissingKey, Side};
use crate::http::template::Template;
use crate::locked::LockSpec;

/// How long a request waits, by default: less than clients and proxies wait for an answer.
const WAIT: Wait = Wait::UpTo(Duration::from_secs(10));

/// How many requests of a process wait for a lock, by default.
const MAX_WAITERS: usize = 1024;

/// How long a body holds the lock while it is sent, by default.
const MAX_BODY_HOLD: Duration = Duration::from_secs(30);

/// How the requests of a layer or of a route are locked, by one configuration of one client.
pub(crate) struct Plan {
    pub(crate) route: Option<Arc<Route>>,
    pub(crate) http: HttpPolicy,
    pub(crate) label: LayerLabel,
    key: KeySource,
    kind: LockKind,
    options: Arc<LockOptions>,
    policy: Option<EffectivePolicy>,
    pub(crate) times: Arc<HoldTimes>,
    /// Where the layer was made.
    site: &'static LayerSite,
}

impl Plan {
    /// Puts the settings of the code over those of a route, of a policy, and of the client. The settings may each be valid
    /// and still contradict each other.
    // S-10.
    pub(crate) fn new(
        settings: &HttpSettings,
        client: Option<&LockClient>,
        config: Option<&LayerConfig>,
        policy: Option<EffectivePolicy>,
        entry: Option<&LockRoute>,
    ) -> Result<Self, LockError> {
        let mut http = settings.http.clone();
        if let Some(policy) = &policy {
            let configured = policy.http().map_err(invalid)?;
            http = configured.into_iter().fold(http, HttpPolicy::or);
        }
        http.hold = entry.and_then(|entry| entry.hold).or(http.hold);
        http.methods = entry.and_then(|entry| entry.methods.clone()).or(http.methods);
        if http.methods.as_ref().is_some_and(|methods| methods.listed && methods.names.is_empty()) {
            return Err(invalid(
                "the layer locks no method; name at least one, or remove the layer",
            ));
        }
        let path = entry.map(|entry| &entry.path).or(settings.route.as_ref());
        let route = path.map(|path| Route::of(path, entry.is_some()).map(Arc::new)).transpose()?;
        let template = |text: &str| Key::Template(text.to_owned());
        let key = entry.and_then(|entry| entry.key.as_deref()).map(template);
        let key = key.or_else(|| settings.key.clone());
        let key = key.or_else(|| policy.as_ref()?.key().map(template));
        let site = LayerSite::of(settings.site, key.as_ref().and_then(Key::template));
        let key = key_source(key, route.as_ref(), &settings.extensions)?;
        let kind = lock_kind(policy.as_ref(), &settings.options, http.shares())?;
        let own = settings.options.clone();
        let options = match (&policy, client, config) {
            (Some(policy), Some(client), _) => runtime::options_of(client, policy, own)?,
            (_, _, Some(config)) => own.or(LockOptions::clone(config.options())),
            (_, Some(client), None) => own.or(client.options()),
            (_, None, None) => own,
        };
        let options = options.or(LockOptions::new().wait(WAIT).max_waiters(MAX_WAITERS));
        options.check()?;
        let label = match &policy {
            Some(policy) => policy.layer_label(site),
            None => LayerLabel::new(site),
        };
        let options = Arc::new(options);
        Ok(Self { route, http, label, key, kind, options, policy, times: Arc::default(), site })
    }

    /// Returns how the next request is locked.
    pub(crate) fn spec(&self, client: LockClient, side: Side) -> LockSpec {
        let options = Arc::clone(&self.options);
        LockSpec {
            client,
            kind: if side == Side::Shared { LockKind::Read } else { self.kind },
            release_timeout: self.http.release_timeout,
            options,
            enforced: self.policy.as_ref().is_none_or(EffectivePolicy::is_enforced),
        }
    }

    /// Returns what the refusal of a request depends on, as far as the plan decides.
    pub(crate) fn context<'a>(&'a self, name: Option<&'a LockKey>) -> RefusalContext<'a> {
        RefusalContext {
            busy: self.http.busy.unwrap_or(StatusCode::CONFLICT),
            name: name.map(LockKey::as_str),
            policy: self.policy.as_ref().map_or(NO_POLICY, EffectivePolicy::name),
            site: Some(self.site.location()),
            times: Some(&self.times),
            ..RefusalContext::default()
        }
    }

    /// Logs that a request runs without a lock: it has no key, but its policy is not enforced.
    pub(crate) fn log_not_enforced(&self, error: &KeyError) {
        if let Some(policy) = &self.policy {
            policy.log_not_enforced(self.site.location(), error);
        }
    }

    /// Returns the side that a request with that method takes; `None` if it needs no lock.
    pub(crate) fn side(&self, method: &Method) -> Option<Side> {
        self.http.side(method.as_str())
    }

    /// Returns the key of a request; `None` if it runs without a lock.
    pub(crate) fn key(&self, parts: &mut Parts) -> Result<Option<LockKey>, KeyError> {
        // If GET and HEAD are both locked, they share the lock.
        let method = match parts.method {
            Method::HEAD if self.side(&Method::GET).is_some() => Method::GET,
            _ => parts.method.clone(),
        };
        match self.key.key(parts, &method) {
            Err(KeyError::Missing(_)) if self.http.on_missing == Some(OnMissingKey::Skip) => {
                Ok(None)
            }
            key => key,
        }
    }

    /// Returns when a body whose sending starts now is cut off.
    pub(crate) fn body_limit(
        &self,
        acquired_at: Instant,
        max_hold: Option<Duration>,
    ) -> Option<Instant> {
        // If the whole hold has a limit, the body needs no default limit of its own.
        let default = max_hold.map_or(MAX_BODY_HOLD, |_| Duration::MAX);
        let body = Instant::now().checked_add(self.http.max_body_hold.unwrap_or(default));
        let hold = max_hold.and_then(|max_hold| acquired_at.checked_add(max_hold));
        body.into_iter().chain(hold).min()
    }

    /// True if the handler runs to its end when the client has left.
    pub(crate) fn finishes(&self) -> bool {
        self.http.on_disconnect == Some(OnDisconnect::Finish)
    }
}

/// Returns the kind of the lock, or of the write side if GET and HEAD acquire the read side.
fn lock_kind(
    policy: Option<&EffectivePolicy>,
    options: &LockOptions,
    shares: bool,
) -> Result<LockKind, LockError> {
    let kind = options.kind.or_else(|| policy?.options().kind);
    match kind.unwrap_or_default() {
        kind if !shares => Ok(kind),
        // A mutex of the same name is another kind of lock and would collide with the readers.
        LockKind::Mutex | LockKind::Write => Ok(LockKind::Write),
        kind => Err(invalid(format!(
            "`safe_methods` acquires the read side of a read/write lock, and the kind is {kind}; omit the \
             kind, or set it to `write`"
        ))),
    }
}

fn key_source(
    key: Option<Key>,
    route: Option<&Arc<Route>>,
    extensions: &ExtensionParts,
) -> Result<KeySource, LockError> {
    let text = match key {
        None => {
            return Err(invalid(
                "the layer has no key; set one with `key(\"order:{path.id}\")`, `key_fn`, or `key = …` in its \
                 policy",
            ));
        }
        Some(Key::Function(_)) if route.is_some() => {
            return Err(invalid(
                "`route` is for the `{path.…}` of a key template, and the key is a closure; omit one of them",
            ));
        }
        Some(Key::Function(function)) => return Ok(KeySource::Function(function)),
        Some(Key::Template(text)) => text,
    };
    let template = Template::parse(&text).map_err(|problem| match looks_like_address(&text) {
        true => {
            invalid("the key template cannot be used, and is not shown: it looks like an address")
        }
        false => invalid(format!("the key template {problem}")),
    })?;
    if let Some(route) = route
        && let Some((name, known)) = route.lacks(&template)
    {
        let problem =
            format!("`{{path.{name}}}` is not in the route `{}`, which has {known}", route.text);
        return Err(invalid(problem));
    }
    if route.is_none() && cfg!(not(feature = "axum-08")) {
        let remedy = "or enable the feature `axum-08` to take it from the router";
        if let Some(name) = template.path_parameters().next() {
            return Err(invalid(format!(
                "`{{path.{name}}}` needs a route; set it with `route(\"/…/{{{name}}}\")`, {remedy}"
            )));
        }
        if template.has_route() {
            return Err(invalid(format!(
                "`{{route}}` needs a route; set it with `route(…)`, {remedy}"
            )));
        }
    }
    extensions.check(&template)?;
    let (route, extensions) = (route.cloned(), extensions.clone());
    Ok(KeySource::Template { template, route, extensions })
}
