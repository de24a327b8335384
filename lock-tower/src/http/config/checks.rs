//! Checks what a configuration says to HTTP layers.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lock_runtime::__layer_v1 as runtime;
use lock_runtime::policy::{ConfigError, LockConfig};

use crate::http::config::settings::{HttpPolicy, LockRoute, Methods};
use crate::http::config::shadow::{self, Reach};
use crate::http::request::route::Route;
use crate::http::request::template::Template;

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
    for (path, policy) in config.tables() {
        let http: HttpPolicy = LockConfig::http(&path, policy)?;
        check.key(&path, policy.key.as_deref());
        check.methods(&format!("{path}.http"), http.methods.as_ref());
        if http.max_body_hold == Some(Duration::ZERO) {
            let message = r#""0s" sends no body; give it time, or write hold = "response""#;
            check.report(format!("{path}.http.max_body_hold"), message);
        }
    }
    check.routes(&config.routes()?, config)?;
    runtime::config_problems(check.0)
}

#[derive(Default)]
struct Check(Vec<(String, String)>);

impl Check {
    fn report(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push((path.into(), message.into()));
    }

    /// As [`report`](Self::report), about texts that the message repeats. One that has an address in it is not shown.
    fn report_of(&mut self, texts: &[&str], path: impl Into<String>, message: impl Into<String>) {
        let is_address =
            |text: &&str| text.contains('@') || text.contains("//") || text.contains(":/");
        match texts.iter().any(is_address) {
            true => self.report(path, "cannot be used, and is not shown: it looks like an address"),
            false => self.report(path, message),
        }
    }

    fn key(&mut self, path: &str, key: Option<&str>) {
        if let Some(key) = key
            && let Err(problem) = Template::parse(key)
        {
            self.report_of(&[key], format!("{path}.key"), format!("{} {problem}", quoted(key)));
        }
    }

    fn methods(&mut self, path: &str, methods: Option<&Methods>) {
        let methods = match methods {
            None | Some(Methods::All) => return,
            Some(methods) => methods.names(),
        };
        let path = format!("{path}.methods");
        if methods.is_empty() {
            self.report(&path, "is empty, so nothing would lock; list methods or leave it out");
        }
        let is_token = |method: &String| {
            !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase() || "-_".contains(c))
        };
        for (at, method) in methods.iter().enumerate().filter(|(_, method)| !is_token(method)) {
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
                let message = format!("{} {problem}", quoted(&route.path));
                self.report_of(&[&route.path], format!("{path}.path"), message);
            }
            self.key(&path, route.key.as_deref());
            self.methods(&path, route.methods.as_ref());
            let listed = match &route.methods {
                Some(Methods::These(methods)) => &methods[..],
                _ => &[],
            };
            for method in listed {
                if let Some(before) = taken.insert((&route.path, method), at) {
                    let shown = quoted(&route.path);
                    let message =
                        format!("{method} {shown} is lock.routes[{before}] already; take one out");
                    self.report_of(&[&route.path, method], &path, message);
                    told.insert(at);
                }
            }
            let (Ok(policy), Ok(parsed)) = (policy, parsed) else { continue };
            self.parameters(&path, route, &parsed, policy.key.as_deref());
            let http = LockConfig::http(&format!("lock.policies.{}", route.policy), &policy)?;
            reaches.push(Reach::new(at, parsed.shape(), route, &http));
        }
        for (at, before) in shadow::shadowed(&reaches) {
            if !told.contains(&at) {
                let message = shadowed(&before, routes);
                self.report_of(&[&routes[at].path], format!("lock.routes[{at}]"), message);
            }
        }
        Ok(())
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
        let parameters = || parsed.parameters();
        let unknown =
            template.path_parameters().find(|name| parameters().all(|known| known != *name));
        let Some(name) = unknown else { return };
        let known: Vec<_> = parameters().map(|name| format!("`{{path.{name}}}`")).collect();
        let (known, remedy) = if known.is_empty() {
            ("no parameters, which are written as `{id}`".to_owned(), "write one")
        } else {
            (known.join(", "), "rename the parameter")
        };
        let (quoted_key, quoted_path) = (quoted(key), quoted(&route.path));
        if route.key.is_some() {
            let message = format!(
                "{quoted_key} has `{{path.{name}}}`, which is not in the path {quoted_path}; that has {known}"
            );
            self.report_of(&[key, &route.path], format!("{path}.key"), message);
        } else {
            let message = format!(
                "{quoted_path} does not have `{{path.{name}}}`, which is in the key {quoted_key} of \
                 lock.policies.{}; it has {known}: {remedy}, or give this route a key",
                route.policy
            );
            self.report_of(&[key, &route.path], format!("{path}.path"), message);
        }
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// The message for a route whose requests all match the routes at these positions.
fn shadowed(before: &BTreeSet<usize>, routes: &[LockRoute]) -> String {
    let named =
        before.iter().map(|at| format!("lock.routes[{at}], {},", quoted(&routes[*at].path)));
    let named = named.collect::<Vec<_>>().join(" and ");
    let (take, them) = if before.len() == 1 { ("takes", "it") } else { ("take", "them") };
    format!(
        "locks nothing: {named} {take} all its requests; put this one in front of {them}, or take it out"
    )
}
