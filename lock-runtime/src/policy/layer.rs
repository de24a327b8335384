//! One table of settings, and the contradictions between several tables.

use std::time::Duration;

use lock_syntax::template::{Piece, pieces};

use super::error::{ConfigProblem, may_be_secret, quoted};
use super::http::Methods;
use super::model::LockPolicy;
use super::{template, text};
use crate::options::{Lease, LockKind, MAX_LEASE, MIN_LEASE, Replicas, Wait, duration_text};

/// A policy, a base or the defaults, and the path to it.
#[derive(Clone)]
pub(super) struct Layer<'a> {
    pub(super) path: String,
    pub(super) policy: &'a LockPolicy,
}

impl Layer<'_> {
    fn problem(&self, field: &str, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem::new(format!("{}.{field}", self.path), message)
    }

    /// Returns the problems that do not depend on other layers.
    pub(super) fn problems(&self) -> Vec<ConfigProblem> {
        let policy = self.policy;
        let mut found = Vec::new();
        if policy.wait == Some(Wait::UpTo(Duration::ZERO)) {
            found.push(self.problem("wait", r#""0s" never waits; write "none" to say so"#));
        }
        if let Some(lease) = policy.lease
            && !(MIN_LEASE..=MAX_LEASE).contains(&lease.duration())
        {
            found.push(self.problem("lease", out_of_range(&text::lease_text(lease))));
        }
        for (field, duration) in [("at_least", policy.at_least), ("max_hold", policy.max_hold)] {
            if duration == Some(Duration::ZERO) {
                let message = r#""0s" says nothing; omit it, or set a positive duration"#;
                found.push(self.problem(field, message));
            }
        }
        if let Some(at_least) = policy.at_least.filter(|at_least| *at_least > MAX_LEASE) {
            let (given, most) = (duration_text(at_least), duration_text(MAX_LEASE));
            let message = format!("\"{given}\" is too long; a lock is kept for \"{most}\" at most");
            found.push(self.problem("at_least", message));
        }
        if let Some(Replicas { at_least, timeout }) = policy.replicas {
            if at_least == 0 {
                let message = "0 asks for none; leave replicas out or ask for one";
                found.push(self.problem("replicas.at_least", message));
            }
            if timeout < Duration::from_millis(1) {
                let given = duration_text(timeout);
                let message = format!("\"{given}\" gives them no time; give at least \"1ms\"");
                found.push(self.problem("replicas.timeout", message));
            }
        }
        found.extend(key_problem(&self.path, policy.key.as_deref()));
        found.extend(methods(&format!("{}.http", self.path), policy.http.methods.as_ref()));
        if policy.http.max_body_hold == Some(Duration::ZERO) {
            let message = r#""0s" sends no body; give it time, or write hold = "response""#;
            found.push(self.problem("http.max_body_hold", message));
        }
        found
    }
}

/// Returns the problem of the key template under `path`.
pub(super) fn key_problem(path: &str, key: Option<&str>) -> Option<ConfigProblem> {
    let key = key?;
    let problem = template::problem(key)?;
    // The problem may repeat what stands between braces.
    let names = pieces(key).filter_map(|piece| match piece {
        Ok(Piece::Placeholder(name)) => Some(name),
        _ => None,
    });
    let repeats = |name: &str| !name.is_empty() && problem.contains(name);
    let problem = match may_be_secret(key) && names.into_iter().any(repeats) {
        true => "has a mistake between its braces, which may be a part of an address; write \
                 `{path.id}` or the like"
            .to_owned(),
        false => problem,
    };
    Some(ConfigProblem::new(format!("{path}.key"), format!("{} {problem}", quoted(key))))
}

fn out_of_range(lease: &str) -> String {
    let (least, most) = (duration_text(MIN_LEASE), duration_text(MAX_LEASE));
    format!("a lease of \"{lease}\" does not work; give between \"{least}\" and \"{most}\"")
}

/// Returns the problems of the methods under `path`.
pub(super) fn methods(path: &str, methods: Option<&Methods>) -> Vec<ConfigProblem> {
    let methods = match methods {
        None | Some(Methods::All) => return Vec::new(),
        Some(methods) => methods.names(),
    };
    let path = format!("{path}.methods");
    if methods.is_empty() {
        let message = "is empty, so nothing would lock; list methods or leave it out";
        return vec![ConfigProblem::new(path, message)];
    }
    let token = |method: &String| {
        !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase() || "-_".contains(c))
    };
    let wrong = methods.iter().enumerate().filter(|(_, method)| !token(method));
    let problem = |(at, method): (usize, &String)| {
        let method = quoted(method);
        let message = format!("{method} is no method; write them in capitals, such as \"POST\"");
        ConfigProblem::new(format!("{path}[{at}]"), message)
    };
    wrong.map(problem).collect()
}

/// A value, and the path to it.
fn said<T>(
    chain: &[Layer<'_>],
    field: &str,
    get: impl Fn(&LockPolicy) -> Option<T>,
) -> Option<(String, T)> {
    chain.iter().find_map(|layer| Some((format!("{}.{field}", layer.path), get(layer.policy)?)))
}

/// Returns the contradictions between the layers of one policy, given the nearest first.
pub(super) fn contradictions(chain: &[Layer<'_>]) -> Vec<ConfigProblem> {
    let lease = said(chain, "lease", |policy| policy.lease);
    let at_least = said(chain, "at_least", |policy| policy.at_least);
    let max_hold = said(chain, "max_hold", |policy| policy.max_hold);
    let mut found = Vec::new();
    if let Some((lease_path, lease @ Lease::Fixed(fixed))) = &lease {
        let fixed_lease =
            format!("the fixed lease \"{}\" of {lease_path}", text::lease_text(*lease));
        if let Some((path, max_hold)) = &max_hold {
            let max_hold = duration_text(*max_hold);
            let message = format!(
                "\"{max_hold}\" has no meaning with {fixed_lease}, which is never renewed; take one \
                 out or write lease = \"watchdog\""
            );
            found.push(ConfigProblem::new(path, message));
        }
        if let Some((path, at_least)) = at_least.as_ref().filter(|(_, it)| it > fixed) {
            let at_least = duration_text(*at_least);
            let message =
                format!("\"{at_least}\" is longer than {fixed_lease}; make the lease as long");
            found.push(ConfigProblem::new(path, message));
        }
    } else if let (Some((path, at_least)), Some((hold_path, max_hold))) = (&at_least, &max_hold)
        && at_least > max_hold
    {
        let (at_least, max_hold) = (duration_text(*at_least), duration_text(*max_hold));
        let message = format!(
            "\"{at_least}\" is longer than the \"{max_hold}\" of {hold_path}; make that as long"
        );
        found.push(ConfigProblem::new(path, message));
    }
    found.extend(slow_replicas(chain, lease));
    found
}

/// Returns the problem of replicas that may take as long as the lease.
fn slow_replicas(chain: &[Layer<'_>], lease: Option<(String, Lease)>) -> Option<ConfigProblem> {
    let (path, replicas) = said(chain, "replicas", |policy| policy.replicas)?;
    let (whose, lease) = match lease {
        Some((path, lease)) => {
            (format!("the lease \"{}\" of {path}", text::lease_text(lease)), lease)
        }
        None => {
            let lease = Lease::default();
            (format!("the default lease, \"{}\"", text::lease_text(lease)), lease)
        }
    };
    let timeout = duration_text(replicas.timeout);
    let message =
        format!("\"{timeout}\" is not less than {whose}; give them less, or set a longer lease");
    (replicas.timeout >= lease.duration())
        .then(|| ConfigProblem::new(format!("{path}.timeout"), message))
}

/// Returns the problem of a setting that a quorum does not support.
pub(super) fn beyond_quorums(chain: &[Layer<'_>]) -> Option<ConfigProblem> {
    let (path, kind) = said(chain, "kind", |policy| policy.kind)?;
    let message = format!("\"{kind}\" is not supported with lock.quorum; use \"mutex\"");
    (kind != LockKind::Mutex).then(|| ConfigProblem::new(path, message))
}
