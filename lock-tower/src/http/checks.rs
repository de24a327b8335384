//! Checks what a configuration says to HTTP layers.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lock_runtime::__layer_v1 as runtime;
use lock_runtime::policy::{ConfigError, LockConfig};

use crate::http::methods::{Methods, UNNAMED};
use crate::http::route::Route;
use crate::http::settings::{HttpPolicy, LockRoute};
use crate::http::template::Template;

/// Checks what a configuration says to HTTP layers: the tables `http`, the keys and the routes.
///
/// A layer that follows a configuration does this when it is built, and
/// [`LockClient::reload`](lock_runtime::LockClient::reload) does it for the layers of the client.
///
/// # Errors
///
/// [`ConfigError`] with every problem, such as a path without a parameter that its key needs, or a route of which
/// earlier ones take all requests.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::LockConfig;
///
/// let config = LockConfig::from_toml("[lock.policies.pay]\nhttp = { busy = 404 }")?;
/// assert_eq!(
///     lock_tower::http::check(&config).unwrap_err().to_string(),
///     "lock.policies.pay.http.busy: invalid value: integer `404`, expected a status: 409, 423, 429 or 503"
/// );
/// # Ok::<_, lock_runtime::policy::ConfigError>(())
/// ```
pub fn check(config: &LockConfig) -> Result<(), ConfigError> {
    let mut check = Check::default();
    for (path, policy) in runtime::tables(config) {
        let http: HttpPolicy = runtime::http(&path, policy)?;
        check.key(&path, policy.key.as_deref());
        check.methods(&format!("{path}.http"), http.methods.as_ref());
        if http.max_body_hold == Some(Duration::ZERO) {
            let message = r#""0s" sends no body; give it time, or write hold = "response""#;
            check.report(format!("{path}.http.max_body_hold"), message);
        }
    }
    check.routes(&runtime::routes(config)?, config)?;
    runtime::config_problems(check.0)
}

/// True if no error may show the text: what looks like an address may have a password.
pub(crate) fn looks_like_address(text: &str) -> bool {
    ["@", "//", ":/"].iter().any(|part| text.contains(part))
}

#[derive(Default)]
struct Check(Vec<(String, String)>);

impl Check {
    fn report(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push((path.into(), message.into()));
    }

    /// As [`report`](Self::report), about texts that the message repeats. One that has an address in it is not shown.
    fn report_of(&mut self, texts: &[&str], path: impl Into<String>, message: impl Into<String>) {
        match texts.iter().any(|text| looks_like_address(text)) {
            true => self.report(path, "cannot be used, and is not shown: it looks like an address"),
            false => self.report(path, message),
        }
    }

    fn key(&mut self, path: &str, key: Option<&str>) {
        if let Some(key) = key
            && let Err(problem) = Template::parse(key)
        {
            self.report_of(&[key], format!("{path}.key"), format!("{key:?} {problem}"));
        }
    }

    fn methods(&mut self, path: &str, methods: Option<&Methods>) {
        let Some(Methods { names, listed }) = methods else { return };
        let path = format!("{path}.methods");
        if *listed && names.is_empty() {
            self.report(&path, "is empty, so nothing would lock; list methods or leave it out");
        }
        let is_token = |method: &String| {
            !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase() || "-_".contains(c))
        };
        for (at, method) in names.iter().enumerate().filter(|(_, method)| !is_token(method)) {
            let message =
                format!("{method:?} is no method; write them in capitals, such as \"POST\"");
            self.report_of(&[method], format!("{path}[{at}]"), message);
        }
    }

    fn routes(&mut self, routes: &[LockRoute], config: &LockConfig) -> Result<(), ConfigError> {
        let (mut taken, mut reaches, mut told) = (HashMap::new(), Vec::new(), BTreeSet::new());
        for (at, route) in routes.iter().enumerate() {
            let path = format!("lock.routes[{at}]");
            let policy = config.policy(&route.policy);
            if let Err(error) = &policy {
                self.report_of(&[&route.policy], format!("{path}.policy"), error.to_string());
            }
            let parsed = Route::parse(&route.path);
            if let Err(problem) = &parsed {
                let message = format!("{:?} {problem}", route.path);
                self.report_of(&[&route.path], format!("{path}.path"), message);
            }
            self.key(&path, route.key.as_deref());
            self.methods(&path, route.methods.as_ref());
            let listed = route.methods.iter().filter(|methods| methods.listed);
            for method in listed.flat_map(|methods| &methods.names) {
                if let Some(before) = taken.insert((&route.path, method), at) {
                    let shown = &route.path;
                    let message = format!(
                        "{method} {shown:?} is lock.routes[{before}] already; take one out"
                    );
                    self.report_of(&[shown, method], &path, message);
                    told.insert(at);
                }
            }
            let (Ok(policy), Ok(parsed)) = (policy, parsed) else { continue };
            self.parameters(&path, route, &parsed, policy.key.as_deref());
            let mut http: HttpPolicy =
                runtime::http(&format!("lock.policies.{}", route.policy), &policy)?;
            http.methods = route.methods.clone().or(http.methods);
            reaches.push((at, parsed.shape.clone(), http));
        }
        self.shadowed(&reaches, routes, &told);
        self.ambiguous(&reaches, routes);
        Ok(())
    }

    /// Reports routes that axum's router refuses beside an earlier one, since neither is the more specific one.
    fn ambiguous(&mut self, reaches: &[(usize, String, HttpPolicy)], routes: &[LockRoute]) {
        let mut told = BTreeSet::new();
        for method in methods_of(reaches) {
            let mut matcher = matchit::Router::new();
            let mut before: HashMap<&str, usize> = HashMap::new();
            let locked = reaches.iter().filter(|(.., http)| http.side(method).is_some());
            for (at, shape, _) in locked {
                let Err(matchit::InsertError::Conflict { with }) = matcher.insert(shape, ()) else {
                    before.entry(shape).or_insert(*at);
                    continue;
                };
                // A route of the same shape is none that conflicts: the first one counts.
                let Some(first) = before.get(&*with).filter(|_| with != *shape) else { continue };
                if told.insert(*at) {
                    let [this, other] = [*at, *first].map(|at| &routes[at].path);
                    let message = format!(
                        "is {this:?}, and lock.routes[{first}] is {other:?}: a router tells a parameter and a `{{*…}}` \
                         at one place not apart; use one of them for both"
                    );
                    self.report_of(&[this, other], format!("lock.routes[{at}].path"), message);
                }
            }
        }
    }

    /// Reports routes that no request can reach, because earlier ones match all their requests. `reaches` is what routes
    /// lock: their position, the shape of their path, and their methods. Routes of another shape match other paths, or are
    /// matched in an order of their own.
    fn shadowed(
        &mut self,
        reaches: &[(usize, String, HttpPolicy)],
        routes: &[LockRoute],
        told: &BTreeSet<usize>,
    ) {
        let methods = methods_of(reaches);
        let mut first = HashMap::new();
        for (at, shape, http) in reaches {
            let locked = methods.iter().filter(|method| http.side(method).is_some());
            let takers: BTreeSet<usize> =
                locked.map(|method| *first.entry((shape, *method)).or_insert(*at)).collect();
            if takers.is_empty() || takers.contains(at) || told.contains(at) {
                continue;
            }
            let named = takers.iter();
            let named = named.map(|at| format!("lock.routes[{at}], {:?},", routes[*at].path));
            let named = named.collect::<Vec<_>>().join(" and ");
            let (take, them) = if takers.len() == 1 { ("takes", "it") } else { ("take", "them") };
            let message = format!(
                "locks nothing: {named} {take} all its requests; put this one in front of {them}, or take it out"
            );
            self.report_of(&[&routes[*at].path], format!("lock.routes[{at}]"), message);
        }
    }

    /// Reports a key with a `{path.…}` that the path of its route does not have. A malformed key is another problem,
    /// reported elsewhere.
    fn parameters(
        &mut self,
        path: &str,
        route: &LockRoute,
        parsed: &Route,
        of_policy: Option<&str>,
    ) {
        let Some(key) = route.key.as_deref().or(of_policy) else { return };
        let Ok(template) = Template::parse(key) else { return };
        let Some((name, known)) = parsed.lacks(&template) else { return };
        let shown = &route.path;
        let (field, message) = if route.key.is_some() {
            let message = format!(
                "{key:?} has `{{path.{name}}}`, which is not in the path {shown:?}; that has {known}"
            );
            ("key", message)
        } else {
            let remedy = if parsed.is_fixed() { "write one" } else { "rename the parameter" };
            let message = format!(
                "{shown:?} does not have `{{path.{name}}}`, which is in the key {key:?} of \
                 lock.policies.{}; it has {known}: {remedy}, or give this route a key",
                route.policy
            );
            ("path", message)
        };
        self.report_of(&[key, shown], format!("{path}.{field}"), message);
    }
}

/// The methods that routes name, with GET, HEAD and one for all others, which a route may lock without naming them.
fn methods_of(reaches: &[(usize, String, HttpPolicy)]) -> BTreeSet<&str> {
    let named = reaches.iter().filter_map(|(.., http)| http.methods.as_ref());
    let named = named.flat_map(|methods| methods.names.iter().map(String::as_str));
    named.chain(["GET", "HEAD", UNNAMED]).collect()
}
