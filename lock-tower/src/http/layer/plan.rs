//! How the requests of a layer or of a route are locked: the settings of the code and, if the layer follows
//! policies, those of the configuration.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use lock_runtime::observe::{LayerLabel, NO_POLICY};
use lock_runtime::options::LockSettings;
use lock_runtime::policy::{
    BusyStatus, HoldUntil, HttpPolicy, LockConfig, LockRoute, Methods, OnDisconnect, OnMissingKey,
    Policy, SafeMethods,
};
use lock_runtime::site::LayerSite;
use lock_runtime::{LockClient, LockError, LockKey, LockKind, LockOptions, Wait};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::http::answer::refusal::{HoldTimes, LogFields};
use crate::http::error::BuildError;
use crate::http::request::key::{ExtensionParts, KeyExtractor, KeySource, KnownRoute};
use crate::http::request::route::Route;
use crate::http::request::template::Template;
use crate::locked::{LockSpec, RELEASE_TIMEOUT};

/// How long a request waits, by default: less than clients and proxies wait for an answer.
const WAIT: Wait = Wait::UpTo(Duration::from_secs(10));

/// How many requests of a process wait for a lock, by default.
const MAX_WAITERS: usize = 1024;

/// How long a body holds the lock while it is sent, by default.
const MAX_BODY_HOLD: Duration = Duration::from_secs(5 * 60);

/// The settings that the builder was given, before any policy.
#[derive(Clone)]
pub(crate) struct Literals {
    pub(crate) settings: LockSettings,
    /// Complete options, which exclude settings.
    pub(crate) options: Option<LockOptions>,
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
            settings: LockSettings::default(),
            options: None,
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
    Extractor(Arc<dyn KeyExtractor>),
}

/// How the requests of a layer or of a route are locked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) route: Option<Arc<Route>>,
    pub(crate) key: KeySource,
    pub(crate) busy: BusyStatus,
    pub(crate) hold: HoldUntil,
    pub(crate) on_missing: OnMissingKey,
    on_disconnect: OnDisconnect,
    pub(crate) times: Arc<HoldTimes>,
    methods: PlanMethods,
    /// True if GET and HEAD acquire the read side.
    shares: bool,
    kind: LockKind,
    release_timeout: Duration,
    max_body_hold: Option<Duration>,
    settings: LockSettings,
    options: Option<LockOptions>,
    /// The last options of a client that were asked for, and those of this plan over them.
    resolved: RwLock<Option<Resolved>>,
    pub(crate) policy: Option<Policy>,
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
        policy: Option<Policy>,
        entry: Option<&LockRoute>,
    ) -> Result<Self, BuildError> {
        let mut http = match &policy {
            Some(policy) => policy.resolve_http(&literals.http),
            None => literals.http.clone(),
        };
        http.hold = entry.and_then(|entry| entry.hold).or(http.hold);
        let policy_key = policy.as_ref().and_then(Policy::key).map(str::to_owned);
        let key = entry.and_then(|entry| entry.key.clone()).map(Key::Template);
        let key = key.or_else(|| literals.key.clone()).or(policy_key.map(Key::Template));
        let path = entry.map(|entry| &entry.path).or(literals.route.as_ref());
        let route = path.map(|path| Route::parse(path)).transpose()?.map(Arc::new);
        let known = route.clone().map(|route| KnownRoute { route, full: entry.is_some() });
        let methods = entry.and_then(|entry| entry.methods.as_ref()).or(http.methods.as_ref());
        let methods = methods.cloned().unwrap_or_default();
        let shares = http.safe_methods == Some(SafeMethods::Shared);
        let template = match &key {
            Some(Key::Template(template)) => Some(template.as_str()),
            Some(Key::Extractor(_)) | None => None,
        };
        let site = LayerSite::of(literals.site, template);
        let key = key_source(key, known, literals)?;
        if methods == Methods::These(Vec::new()) {
            return Err(BuildError::new(
                "the layer locks no method; name at least one, or remove the layer",
            ));
        }
        let kind = lock_kind(policy.as_ref(), literals.settings, shares)?;
        Ok(Self {
            key,
            route,
            busy: http.busy.unwrap_or(BusyStatus::Conflict),
            hold: http.hold.unwrap_or_default(),
            on_missing: http.on_missing.unwrap_or_default(),
            on_disconnect: http.on_disconnect.unwrap_or_default(),
            times: Arc::default(),
            methods: PlanMethods::new(methods),
            shares,
            kind,
            release_timeout: http.release_timeout.unwrap_or(RELEASE_TIMEOUT),
            max_body_hold: http.max_body_hold,
            settings: literals.settings,
            options: literals.options,
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
        let policy = self.policy.as_ref().map_or(NO_POLICY, Policy::name);
        LogFields { name: key.map(LockKey::as_str), policy, site: Some(self.site.location()) }
    }

    /// Checks the plan with the client's options. The settings of the code and of a policy may each be valid and
    /// still contradict each other.
    // S-10.
    pub(crate) fn checked(self, client: &LockClient) -> Result<Self, BuildError> {
        self.spec(client.clone(), Side::Main).map_err(BuildError::from_display)?;
        Ok(self)
    }

    /// Checks a plan without a policy with the defaults of a configuration that is not in effect yet.
    pub(crate) fn check_defaults(
        &self,
        client: &LockClient,
        config: &LockConfig,
    ) -> Result<(), BuildError> {
        if self.options.is_some() {
            return Ok(());
        }
        let options = client.options_under(config);
        let options = options.and_then(|options| self.settings.apply_to(options));
        options.map(drop).map_err(BuildError::from_display)
    }

    /// Returns the side that a request with that method takes; `None` if it needs no lock.
    pub(crate) fn side(&self, method: &Method) -> Option<Side> {
        if self.methods.contains(method) {
            return Some(Side::Main);
        }
        let reads = matches!(*method, Method::GET | Method::HEAD);
        (self.shares && reads).then_some(Side::Shared)
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
        let options = match (&self.policy, self.options) {
            (_, Some(options)) => options,
            (Some(policy), None) => client.options_of(policy, self.settings)?,
            (None, None) => self.settings.apply_to(*below)?,
        };
        let options = Arc::new(options.with_fallbacks(WAIT, MAX_WAITERS));
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
        let enforced = self.policy.as_ref().is_none_or(Policy::is_enforced_now);
        Ok(LockSpec { client, kind, options, release_timeout: self.release_timeout, enforced })
    }
}

/// The methods that a plan locks. It compares no text for those that nearly all requests have.
#[derive(Debug)]
struct PlanMethods {
    all: Methods,
    /// Whether it locks each of [`COMMON`].
    common: [bool; COMMON.len()],
}

const COMMON: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

impl PlanMethods {
    fn new(all: Methods) -> Self {
        Self { common: COMMON.map(|method| all.contains(method.as_str())), all }
    }

    fn contains(&self, method: &Method) -> bool {
        match COMMON.iter().position(|common| common == method) {
            Some(at) => self.common[at],
            None => self.all.contains(method.as_str()),
        }
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
    policy: Option<&Policy>,
    settings: LockSettings,
    shares: bool,
) -> Result<LockKind, BuildError> {
    let settings = policy.map_or(settings, |policy| policy.resolve(settings));
    match settings.kind.unwrap_or_default() {
        kind if !shares => Ok(kind),
        // A mutex of the same name is another kind of lock and would collide with the readers.
        LockKind::Mutex | LockKind::Write => Ok(LockKind::Write),
        kind => Err(BuildError::new(format!(
            "`safe_methods` acquires the read side of a read/write lock, and the kind is {kind}; omit the \
             kind, or set it to `write`"
        ))),
    }
}

fn key_source(
    key: Option<Key>,
    route: Option<KnownRoute>,
    literals: &Literals,
) -> Result<KeySource, BuildError> {
    match key {
        None => Err(BuildError::new(
            "the layer has no key; set one with `key(\"order:{path.id}\")`, `key_fn`, or `key = …` in its \
             policy",
        )),
        Some(Key::Extractor(_)) if route.is_some() => Err(BuildError::new(
            "`route` is for the `{path.…}` of a key template, and the key is a closure; omit one of them",
        )),
        Some(Key::Extractor(extractor)) => Ok(KeySource::Extractor(extractor)),
        Some(Key::Template(text)) => {
            let template = Template::parse(&text)?;
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
fn check_parameters(template: &Template, route: Option<&Route>) -> Result<(), BuildError> {
    let Some(route) = route else {
        if cfg!(feature = "axum") {
            return Ok(());
        }
        return match template.path_parameters().next() {
            Some(name) => Err(BuildError::new(format!(
                "`{{path.{name}}}` needs a route; set it with `route(\"/…/{{{name}}}\")`, or enable the \
                 feature `axum` to take it from the router"
            ))),
            None if template.has_route() => Err(BuildError::new(
                "`{route}` needs a route; set it with `route(…)`, or enable the feature `axum` to take it \
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
    Err(BuildError::new(format!(
        "`{{path.{name}}}` is not in the route `{route}`, which has {known}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_methods_are_as_the_text_says() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let purge = Method::from_bytes(b"PURGE").unwrap();
        for all in [
            Methods::default(),
            Methods::All,
            Methods::These(names(&["GET", "PATCH", "PURGE"])),
            Methods::AllBut(names(&["HEAD", "DELETE", "OPTIONS"])),
        ] {
            let methods = PlanMethods::new(all.clone());
            for method in COMMON.into_iter().chain([Method::OPTIONS, purge.clone()]) {
                let expected = all.contains(method.as_str());
                assert_eq!(methods.contains(&method), expected, "{method} of {all:?}");
            }
        }
    }
}
