//! Checks the table `[lock]` and turns it into a [`LockConfig`], or reports all its problems.

mod address;
mod routes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use lock_syntax::nearest;

use super::address::LockAddress;
use super::error::{ConfigError, ConfigProblem, is_odd_name, join, shown};
use super::http::HttpPolicy;
use super::layer::{self, Layer};
use super::model::{LockPolicy, LockSection};
use super::resolve::{Policy, Resolved};
use super::{LockConfig, RestartGuard, pattern};
use crate::key::LockKey;
use crate::observe::{Label, NO_POLICY};
use crate::options::{LockSettings, TOKEN_TTL, duration_text};

impl LockSection {
    /// Checks the whole table, and merges each policy with its bases.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with all problems.
    pub fn validate(self) -> Result<LockConfig, ConfigError> {
        let mut check = Check::default();
        let address = check.address(&self);
        check.restart_guard(&self);
        if let Some(namespace) = &self.namespace
            && let Err(error) = LockKey::check_namespace(namespace)
        {
            check.report("lock.namespace", harmless(error.to_string(), &[namespace]));
        }
        if let Some(token_ttl) = self.token_ttl.filter(|it| !TOKEN_TTL.contains(it)) {
            let given = duration_text(token_ttl);
            let message = format!("\"{given}\" does not work; give between \"1h\" and \"30days\"");
            check.report("lock.token_ttl", message);
        }
        check.layers(&self);
        let (policies, patterns) = check.policies(&self, address.as_ref());
        let config = LockConfig {
            address,
            restart_guard: self.restart_guard,
            namespace: self.namespace,
            token_ttl: self.token_ttl,
            overrides: self.overrides,
            defaults: self.defaults.settings(),
            policies,
            patterns,
            routes: Vec::new(),
        };
        check.guarded_leases(&config);
        check.patterns(&config.patterns);
        check.routes(&self.routes, &config);
        match check.problems.is_empty() {
            true => Ok(LockConfig { routes: self.routes, ..config }),
            false => Err(ConfigError::new(check.problems)),
        }
    }
}

#[derive(Default)]
struct Check {
    problems: Vec<ConfigProblem>,
    /// The problems so far: every policy that builds on two bases finds the contradiction between them again.
    seen: HashSet<ConfigProblem>,
}

impl Check {
    fn report(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.report_all([ConfigProblem::new(path, message)]);
    }

    fn report_all(&mut self, problems: impl IntoIterator<Item = ConfigProblem>) {
        for problem in problems {
            if self.seen.insert(problem.clone()) {
                self.problems.push(problem);
            }
        }
    }

    /// Checks that a quorum's configuration chooses a restart guard, as `QuorumBuilder` requires.
    // S-29.
    fn restart_guard(&mut self, section: &LockSection) {
        const CHOICE: &str = "write the longest lease in use, such as \"30s\", or \"none\" where no \
                              server forgets a lock in a restart";
        let problem = match (&section.quorum, section.restart_guard) {
            (Some(_), None) => format!("is not given, and a quorum needs a choice; {CHOICE}"),
            (Some(_), Some(RestartGuard::For(Duration::ZERO))) => {
                format!("\"0s\" guards nothing; {CHOICE}")
            }
            (None, Some(_)) => {
                "is only for lock.quorum, which is not given; take it out".to_owned()
            }
            _ => return,
        };
        self.report("lock.restart_guard", problem);
    }

    /// Checks that the restart guard is as long as the longest lease: until that has passed, a server that lost its
    /// data in a restart may grant a lock that is still held.
    // S-29.
    fn guarded_leases(&mut self, config: &LockConfig) {
        let Some(RestartGuard::For(guard)) = config.restart_guard else { return };
        let kept = |settings: LockSettings| {
            settings.lease.unwrap_or_default().duration().max(settings.at_least.unwrap_or_default())
        };
        let defaults = [("lock.defaults".to_owned(), kept(config.defaults))];
        let policies = config
            .policies()
            .map(|policy| (join("lock.policies", policy.name()), kept(policy.settings())));
        let all = defaults.into_iter().chain(policies);
        let longest = all.reduce(|longest, one| if one.1 > longest.1 { one } else { longest });
        // Zero is reported already.
        let Some((path, kept)) = longest.filter(|(_, kept)| *kept > guard && !guard.is_zero())
        else {
            return;
        };
        let (guard, kept) = (duration_text(guard), duration_text(kept));
        let message = format!(
            "\"{guard}\" is shorter than the {kept} for which {path} keeps locks; write at least \"{kept}\""
        );
        self.report("lock.restart_guard", message);
    }

    /// Checks each table by itself.
    fn layers(&mut self, section: &LockSection) {
        let LockPolicy { base, key, kind, .. } = &section.defaults;
        for (name, given) in
            [("base", base.is_some()), ("key", key.is_some()), ("kind", kind.is_some())]
        {
            if given {
                let message = "belongs into a policy: the defaults are those of all locks; move it";
                self.report(format!("lock.defaults.{name}"), message);
            }
        }
        let tables = [("lock.base", &section.base), ("lock.policies", &section.policies)];
        let named = tables.into_iter().flat_map(|(table, policies)| {
            policies.iter().map(move |(name, policy)| Layer { path: join(table, name), policy })
        });
        let defaults = Layer { path: "lock.defaults".to_owned(), policy: &section.defaults };
        for layer in std::iter::once(defaults).chain(named) {
            self.report_all(layer.problems());
        }
        for name in section.base.keys() {
            let problem = name_problem(name).or_else(|| {
                name.contains('*').then_some("is a pattern, and bases are named; take the `*` out")
            });
            if let Some(problem) = problem {
                self.report(join("lock.base", name), problem);
            }
        }
        for name in section.policies.keys() {
            let taken = (name == NO_POLICY).then_some(
                "has the name that metrics and logs give to locks without a policy; rename it",
            );
            if let Some(problem) = name_problem(name).or(taken) {
                self.report(join("lock.policies", name), problem);
            }
        }
    }

    fn policies(
        &mut self,
        section: &LockSection,
        address: Option<&LockAddress>,
    ) -> (HashMap<String, Policy>, Vec<Policy>) {
        let defaults = Layer { path: "lock.defaults".to_owned(), policy: &section.defaults };
        self.report_all(layer::contradictions(std::slice::from_ref(&defaults)));
        // The only check of a base that no policy uses.
        for (name, base) in &section.base {
            let path = join("lock.base", name);
            self.chain(Layer { path, policy: base }, &section.base);
        }
        let (mut policies, mut patterns) = (HashMap::new(), Vec::new());
        for (name, policy) in &section.policies {
            let path = join("lock.policies", name);
            let mut chain = self.chain(Layer { path, policy }, &section.base);
            let own = chain.iter().map(|layer| layer.policy.settings());
            let own = own.fold(LockSettings::default(), LockSettings::or);
            let http = |chain: &[Layer<'_>]| {
                let said = chain.iter().map(|layer| &layer.policy.http);
                said.fold(HttpPolicy::default(), HttpPolicy::or)
            };
            let own_http = http(&chain);
            chain.push(defaults.clone());
            self.report_all(layer::contradictions(&chain));
            if let Some(LockAddress::Quorum(_)) = address {
                self.report_all(layer::beyond_quorums(&chain));
            }
            let resolved = Policy::new(Resolved {
                name: Label::new(name),
                key: chain.iter().find_map(|layer| layer.policy.key.clone()),
                own,
                defaults: section.defaults.settings(),
                http: http(&chain),
                own_http,
                enforce: chain.iter().find_map(|layer| layer.policy.enforce).unwrap_or(100),
                overrides: section.overrides,
            });
            if name.contains('*') {
                patterns.push(resolved);
            } else {
                policies.insert(name.clone(), resolved);
            }
        }
        patterns.sort_by_cached_key(|policy: &Policy| {
            std::cmp::Reverse(pattern::weight(policy.name()))
        });
        (policies, patterns)
    }

    /// Returns the layer and the bases that it builds upon, the nearest first.
    fn chain<'a>(
        &mut self,
        first: Layer<'a>,
        bases: &'a BTreeMap<String, LockPolicy>,
    ) -> Vec<Layer<'a>> {
        let mut names: Vec<&str> = Vec::new();
        let mut chain = vec![first];
        while let Some(last) = chain.last()
            && let Some(name) = last.policy.base.as_deref()
        {
            let path = format!("{}.base", last.path);
            let Some(policy) = bases.get(name) else {
                let message = match nearest(name, bases.keys().map(String::as_str)) {
                    Some(near) => format!("; did you mean {:?}?", shown(near)),
                    None => "; add it, or take this out".to_owned(),
                };
                self.report(path, format!("there is no {}{message}", join("lock.base", name)));
                break;
            };
            if let Some(at) = names.iter().position(|seen| *seen == name) {
                self.cycle(&names[at..]);
                break;
            }
            names.push(name);
            chain.push(Layer { path: join("lock.base", name), policy });
        }
        chain
    }

    /// Reports a cycle of bases. It is written from its first name in the alphabet, so that every policy that leads
    /// into it makes the same message.
    fn cycle(&mut self, names: &[&str]) {
        let first = names.iter().enumerate().min_by_key(|(_, name)| **name).map_or(0, |(at, _)| at);
        let round = names[first..].iter().chain(&names[..first]).chain(&names[first..=first]);
        let round: Vec<_> = round.map(|name| shown(name)).collect();
        let path = format!("{}.base", join("lock.base", names[first]));
        let message = format!("bases go round in a circle: {}; break it", round.join(" → "));
        self.report(path, message);
    }

    /// Reports patterns of equal weight that match a common name. Patterns come sorted by weight.
    fn patterns(&mut self, patterns: &[Policy]) {
        let weigh = |policy: &Policy| pattern::weight(policy.name());
        for rivals in patterns.chunk_by(|one, other| weigh(one) == weigh(other)) {
            for (at, one) in rivals.iter().enumerate() {
                let overlaps = |other: &&Policy| pattern::overlap(one.name(), other.name());
                for other in rivals[at + 1..].iter().filter(overlaps) {
                    let message = format!(
                        "is ambiguous with {}; make one of the patterns longer",
                        join("lock.policies", other.name())
                    );
                    self.report(join("lock.policies", one.name()), message);
                }
            }
        }
    }
}

/// Returns the message of another module about these names, or a shorter one if a name may be part of an address.
fn harmless(message: String, names: &[&str]) -> String {
    if names.iter().any(|name| is_odd_name(name)) {
        let kind = message.split(" \"").next().unwrap_or_default();
        return format!("{kind} \"…\": the name is not shown, as it may be a part of an address");
    }
    message
}

fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("has no name; give it one");
    }
    if name.contains(char::is_control) {
        return Some("has a control character in its name; take it out");
    }
    name.contains("**")
        .then_some("has two `*` side by side, which says no more than one; write one")
}
