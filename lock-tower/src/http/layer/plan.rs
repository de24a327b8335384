//! How the requests of a layer or of a route are locked: the settings of the code and, if the layer follows
//! policies, those of the configuration.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use lock_runtime::__layer_v1::LayerLabel;
use lock_runtime::__layer_v1::LayerSite;
use lock_runtime::__layer_v1::{EffectivePolicy, LayerConfig};
use lock_runtime::observe::NO_POLICY;
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions, Wait};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::http::answer::context::LogFields;
use crate::http::config::settings::{
    HoldUntil, HttpPolicy, LockRoute, Methods, OnDisconnect, OnMissingKey, SafeMethods,
};
use crate::http::request::key::{ExtensionParts, KeyFn, KeySource};
use crate::http::request::path::KnownRoute;
use crate::http::request::route::Route;
use crate::http::request::template::Template;
use crate::locked::LockSpec;

/// How long a request waits, by default: less than clients and proxies wait for an answer.
const WAIT: Wait = Wait::UpTo(Duration::from_secs(10));

/// How many requests of a process wait for a lock, by default.
const MAX_WAITERS: usize = 1024;

/// How long a body holds the lock while it is sent, by default.
const MAX_BODY_HOLD: Duration = Duration::from_secs(30);

/// The settings that the builder was given, before any policy.
#[derive(Clone)]
pub(crate) struct Literals {
    pub(crate) options: LockOptions,
    pub(crate) http: HttpPolicy,
    pub(crate) key: Option<Key>,
    pub(crate) route: Option<String>,
    pub(crate) extensions: Arc<ExtensionParts>,
    /// Where the layer was made.
    pub(crate) site: &'static Location<'static>,
}

impl Literals {
    pub(crate) fn new(site: &'static Location<'static>) -> Self {
        Self {
            options: LockOptions::new(),
            http: HttpPolicy::default(),
            key: None,
            route: None,
            extensions: Arc::default(),
            site,
        }
    }

    /// True if a request with that method may need a lock, as far as the builder decides.
    pub(crate) fn may_lock(&self, method: &Method) -> bool {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let named = |methods: &Methods| methods.contains(method.as_str());
        named(&Methods::default())
            || self.http.methods.as_ref().is_some_and(named)
            || (reads && self.http.safe_methods == Some(SafeMethods::Shared))
    }
}

#[derive(Clone)]
pub(crate) enum Key {
    Template(String),
    Function(Arc<KeyFn>),
}

/// Returns the error of an invalid layer.
pub(crate) fn invalid(problem: impl fmt::Display) -> LockError {
    LockError::InvalidOptions(problem.to_string())
}

/// Returns an error in the words of [`invalid`].
pub(crate) fn in_words(error: LockError) -> String {
    match error {
        LockError::InvalidOptions(problem) => problem,
        error => error.to_string(),
    }
}

/// How the requests of a layer or of a route are locked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) route: Option<Arc<Route>>,
    pub(crate) key: KeySource,
    pub(crate) busy: StatusCode,
    pub(crate) hold: HoldUntil,
    pub(crate) on_missing: OnMissingKey,
    on_disconnect: OnDisconnect,
    methods: Methods,
    /// True if GET and HEAD acquire the read side.
    shares: bool,
    kind: LockKind,
    release_timeout: Option<Duration>,
    max_body_hold: Option<Duration>,
    options: LockOptions,
    /// The last options of a client that were asked for, and those of this plan over them.
    resolved: RwLock<Option<Resolved>>,
    pub(crate) policy: Option<EffectivePolicy>,
    /// Where the layer was made.
    pub(crate) site: &'static LayerSite,
    pub(crate) label: LayerLabel,
}

/// Which side of a read/write lock a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The write side, or a lock that has no sides.
    Main,
    /// The read side.
    Shared,
}

impl Plan {
    pub(crate) fn new(
        literals: &Literals,
        policy: Option<EffectivePolicy>,
        entry: Option<&LockRoute>,
    ) -> Result<Self, LockError> {
        let mut http = literals.http.clone();
        if let Some(policy) = &policy {
            let configured = policy.http().map_err(invalid)?;
            http = configured.into_iter().fold(http, HttpPolicy::or);
        }
        http.hold = entry.and_then(|entry| entry.hold).or(http.hold);
        let policy_key = policy.as_ref().and_then(EffectivePolicy::key).map(str::to_owned);
        let key = entry.and_then(|entry| entry.key.clone()).map(Key::Template);
        let key = key.or_else(|| literals.key.clone()).or(policy_key.map(Key::Template));
        let path = entry.map(|entry| &entry.path).or(literals.route.as_ref());
        let route = path.map(|path| parse_route(path)).transpose()?;
        let known = route.clone().map(|route| KnownRoute { route, full: entry.is_some() });
        let methods = entry.and_then(|entry| entry.methods.as_ref()).or(http.methods.as_ref());
        let methods = methods.cloned().unwrap_or_default();
        let shares = http.safe_methods == Some(SafeMethods::Shared);
        let template = match &key {
            Some(Key::Template(template)) => Some(template.as_str()),
            Some(Key::Function(_)) | None => None,
        };
        let site = LayerSite::of(literals.site, template);
        let key = key_source(key, known, literals)?;
        if methods == Methods::These(Vec::new()) {
            return Err(invalid(
                "the layer locks no method; name at least one, or remove the layer",
            ));
        }
        let kind = lock_kind(policy.as_ref(), &literals.options, shares)?;
        Ok(Self {
            key,
            route,
            busy: http.busy.unwrap_or(StatusCode::CONFLICT),
            hold: http.hold.unwrap_or_default(),
            on_missing: http.on_missing.unwrap_or_default(),
            on_disconnect: http.on_disconnect.unwrap_or_default(),
            methods,
            shares,
            kind,
            release_timeout: http.release_timeout,
            max_body_hold: http.max_body_hold,
            options: literals.options.clone(),
            resolved: RwLock::default(),
            label: match &policy {
                Some(policy) => policy.layer_label(site),
                None => LayerLabel::new(site),
            },
            policy,
            site,
        })
    }

    /// Returns the log fields of a request's lock.
    pub(crate) fn log_fields<'a>(&'a self, key: Option<&'a LockKey>) -> LogFields<'a> {
        let policy = self.policy.as_ref().map_or(NO_POLICY, EffectivePolicy::name);
        LogFields { name: key.map(LockKey::as_str), policy, site: Some(self.site.location()) }
    }

    /// Checks the plan with the client's options. The settings of the code and of a policy may each be valid and
    /// still contradict each other.
    // S-10.
    pub(crate) fn checked(self, client: &LockClient) -> Result<Self, LockError> {
        self.spec(client.clone(), Side::Main)?;
        Ok(self)
    }

    /// Checks a plan without a policy with the defaults of a configuration that is not in effect yet.
    pub(crate) fn check_defaults(&self, config: &LayerConfig) -> Result<(), LockError> {
        self.options.clone().or(LockOptions::clone(config.options())).check()
    }

    /// Returns the side that a request with that method takes; `None` if it needs no lock.
    pub(crate) fn side(&self, method: &Method) -> Option<Side> {
        if self.methods.contains(method.as_str()) {
            return Some(Side::Main);
        }
        let reads = matches!(*method, Method::GET | Method::HEAD);
        (self.shares && reads).then_some(Side::Shared)
    }

    /// Returns the methods that its routes name.
    pub(crate) fn named_methods(&self) -> impl Iterator<Item = Method> {
        self.methods.names().iter().filter_map(|name| name.parse().ok())
    }

    /// True if it locks methods that it does not name.
    pub(crate) fn locks_unnamed_methods(&self) -> bool {
        !matches!(self.methods, Methods::These(_))
    }

    /// Returns the method for the key: GET for HEAD if both are locked, so that they share the lock.
    pub(crate) fn method_of_key(&self, method: &Method) -> Method {
        match *method {
            Method::HEAD if self.side(&Method::GET).is_some() => Method::GET,
            _ => method.clone(),
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
        let body = Instant::now().checked_add(self.max_body_hold.unwrap_or(default));
        let hold = max_hold.and_then(|max_hold| acquired_at.checked_add(max_hold));
        body.into_iter().chain(hold).min()
    }

    /// True if the handler runs to its end when the client has left.
    pub(crate) fn finishes(&self) -> bool {
        self.on_disconnect == OnDisconnect::Finish
    }

    /// Returns the options of the locks. They are computed anew only if the client's have changed.
    fn options_for(&self, client: &LockClient) -> Result<Arc<LockOptions>, LockError> {
        let below = match self.policy {
            Some(_) => client.own_options(),
            None => client.shared_options(),
        };
        if let Some(known) = &*self.resolved.read()
            && Arc::ptr_eq(&known.below, &below)
        {
            return Ok(Arc::clone(&known.options));
        }
        let options = match &self.policy {
            Some(policy) => client.options_of(policy, self.options.clone())?,
            None => self.options.clone().or(LockOptions::clone(&below)),
        };
        let options = options.or(LockOptions::new().wait(WAIT).max_waiters(MAX_WAITERS));
        options.check()?;
        let options = Arc::new(options);
        *self.resolved.write() = Some(Resolved { below, options: Arc::clone(&options) });
        Ok(options)
    }

    /// Returns how the next request is locked.
    pub(crate) fn spec(&self, client: LockClient, side: Side) -> Result<LockSpec, LockError> {
        let options = self.options_for(&client)?;
        let kind = match side {
            Side::Shared => LockKind::Read,
            Side::Main => self.kind,
        };
        let enforced = self.policy.as_ref().is_none_or(EffectivePolicy::is_enforced);
        let release_timeout = self.release_timeout.unwrap_or(options.get_release_timeout());
        Ok(LockSpec { client, kind, options, release_timeout, enforced })
    }
}

/// The options of a plan, and those of the client that they were computed from.
#[derive(Debug)]
struct Resolved {
    below: Arc<LockOptions>,
    options: Arc<LockOptions>,
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

fn parse_route(path: &str) -> Result<Arc<Route>, LockError> {
    let route = Route::parse(path);
    route.map(Arc::new).map_err(|problem| invalid(format!("the route `{path}` {problem}")))
}

fn key_source(
    key: Option<Key>,
    route: Option<KnownRoute>,
    literals: &Literals,
) -> Result<KeySource, LockError> {
    match key {
        None => Err(invalid(
            "the layer has no key; set one with `key(\"order:{path.id}\")`, `key_fn`, or `key = …` in its \
             policy",
        )),
        Some(Key::Function(_)) if route.is_some() => Err(invalid(
            "`route` is for the `{path.…}` of a key template, and the key is a closure; omit one of them",
        )),
        Some(Key::Function(function)) => Ok(KeySource::Function(function)),
        Some(Key::Template(text)) => {
            let template = Template::parse(&text)
                .map_err(|problem| invalid(format!("the key template {problem}")))?;
            check_parameters(&template, route.as_ref().map(|known| &*known.route))?;
            literals.extensions.check(&template)?;
            Ok(KeySource::Template {
                template,
                route,
                extensions: Arc::clone(&literals.extensions),
            })
        }
    }
}

/// Checks that the route has every `{path.…}` of the template.
fn check_parameters(template: &Template, route: Option<&Route>) -> Result<(), LockError> {
    let Some(route) = route else {
        if cfg!(feature = "axum-08") {
            return Ok(());
        }
        return match template.path_parameters().next() {
            Some(name) => Err(invalid(format!(
                "`{{path.{name}}}` needs a route; set it with `route(\"/…/{{{name}}}\")`, or enable the \
                 feature `axum-08` to take it from the router"
            ))),
            None if template.has_route() => Err(invalid(
                "`{route}` needs a route; set it with `route(…)`, or enable the feature `axum-08` to take it \
                 from the router",
            )),
            None => Ok(()),
        };
    };
    let unknown = |name: &&str| !route.parameters().any(|parameter| parameter == *name);
    let Some(name) = template.path_parameters().find(unknown) else { return Ok(()) };
    let known: Vec<_> = route.parameters().map(|name| format!("`{{path.{name}}}`")).collect();
    let known = if known.is_empty() {
        "no parameters, which are written as `{id}`".to_owned()
    } else {
        known.join(", ")
    };
    Err(invalid(format!("`{{path.{name}}}` is not in the route `{route:?}`, which has {known}")))
}
