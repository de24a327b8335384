//! Checks a configuration as a whole, and puts each policy together with what it inherits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use lock_syntax::nearest;

use super::effective::EffectivePolicy;
use super::entry::{self, Entry};
use super::error::{ConfigError, ConfigProblem, is_word, join, shown};
use super::{LockConfig, Policy, RestartGuard};
use crate::key::LockKey;
use crate::observe::NO_POLICY;
use crate::options::{LockOptions, SETTINGS, TOKEN_TTL, duration_text};
use crate::place::Place;

impl LockConfig {
    /// Checks all but what it says to layers, `http` and the routes, which `lock_tower::http::check` does. Reading a
    /// configuration does the same already, and a client does it again.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with all problems.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::{LockConfig, Policy};
    ///
    /// let mut checkout = Policy::default();
    /// checkout.base = Some("strict".to_owned());
    /// let mut config = LockConfig::default();
    /// config.insert("checkout", checkout);
    /// let error = config.check().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "lock.policies.checkout.base: there is no lock.base.strict; add it, or take this out"
    /// );
    /// ```
    pub fn check(&self) -> Result<(), ConfigError> {
        self.effective().map(drop)
    }

    /// Returns all policies with what they inherit.
    pub(crate) fn effective(&self) -> Result<HashMap<String, EffectivePolicy>, ConfigError> {
        let mut check = Check::default();
        check.report_all(crate::place::problems(&self.given()));
        check.restart_guard(self);
        if let Some(namespace) = &self.0.namespace
            && let Err(error) = LockKey::check_namespace(namespace)
        {
            let message = match is_word(namespace) {
                true => error.to_string(),
                false => "is no namespace; write a word, such as \"shop\"".to_owned(),
            };
            check.report("lock.namespace", message);
        }
        check.times(self);
        if self.0.tls.as_ref().is_some_and(|it| it.certificate.is_some() != it.key.is_some()) {
            check.report("lock.tls", "has a `certificate` or a `key` without the other; add it");
        }
        check.entries(self);
        let policies = check.policies(self);
        check.guarded_leases(self.0.restart_guard, &self.0.defaults, &policies);
        ConfigError::of(check.problems).map(|()| policies)
    }

    /// Returns where locks are kept; one place, if the configuration is checked.
    pub(super) fn given(&self) -> Vec<(&'static str, Place)> {
        let table = &self.0;
        let given = [
            ("url", table.url.clone().map(Place::of_url)),
            ("cluster", table.cluster.clone().map(Place::Cluster)),
            ("sentinel", table.sentinel.clone().map(Place::Sentinel)),
            ("quorum", table.quorum.clone().map(Place::Quorum)),
        ];
        given.into_iter().filter_map(|(name, place)| Some((name, place?))).collect()
    }

    pub(super) fn defaults_entry(&self) -> Entry<'_> {
        Entry { path: "lock.defaults".to_owned(), policy: &self.0.defaults }
    }

    /// Returns the policy and the bases that it builds upon, the nearest first, up to one that does not exist.
    pub(super) fn chain<'a>(&'a self, first: Entry<'a>) -> Vec<Entry<'a>> {
        let mut names: HashSet<&str> = HashSet::new();
        let mut chain = vec![first];
        while let Some(name) = chain.last().and_then(|last| last.policy.base.as_deref())
            && let Some(policy) = self.0.base.get(name)
            && names.insert(name)
        {
            chain.push(Entry { path: join("lock.base", name), policy });
        }
        chain
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

    /// Checks the durations of the client.
    fn times(&mut self, config: &LockConfig) {
        let ranges = [
            ("token_ttl", &TOKEN_TTL),
            ("store_patience", &SETTINGS),
            ("command_timeout", &SETTINGS),
        ];
        for (given, (name, range)) in config.timing().into_iter().zip(ranges) {
            if let Some(given) = given.filter(|it| !range.contains(it)) {
                let [given, from, to] =
                    [&given, range.start(), range.end()].map(|it| duration_text(*it));
                let message =
                    format!("\"{given}\" does not work; give between \"{from}\" and \"{to}\"");
                self.report(format!("lock.{name}"), message);
            }
        }
    }

    /// Checks that a quorum's configuration chooses a restart guard.
    // S-29.
    fn restart_guard(&mut self, config: &LockConfig) {
        const CHOICE: &str = "write the longest lease in use, such as \"30s\", or \"none\" where no \
                              server forgets a lock in a restart";
        let problem = match (&config.0.quorum, config.0.restart_guard) {
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
    fn guarded_leases(
        &mut self,
        guard: Option<RestartGuard>,
        defaults: &Policy,
        policies: &HashMap<String, EffectivePolicy>,
    ) {
        // Zero is reported already.
        let Some(RestartGuard::For(guard)) =
            guard.filter(|it| *it != RestartGuard::For(Duration::ZERO))
        else {
            return;
        };
        let kept = |options: LockOptions| {
            options.get_lease().duration().max(options.at_least.unwrap_or_default())
        };
        let all = policies
            .iter()
            .map(|(name, policy)| (join("lock.policies", name), kept(policy.options())));
        let all = all.chain([("lock.defaults".to_owned(), kept(defaults.options()))]);
        // Of equal ones the defaults, else the first in the alphabet.
        let Some((path, kept)) =
            all.max_by(|one, other| one.1.cmp(&other.1).then(other.0.cmp(&one.0)))
        else {
            return;
        };
        if kept > guard {
            let (guard, kept) = (duration_text(guard), duration_text(kept));
            let message = format!(
                "\"{guard}\" is shorter than the {kept} for which {path} keeps locks; write at least \"{kept}\""
            );
            self.report("lock.restart_guard", message);
        }
    }

    /// Checks each entry by itself.
    fn entries(&mut self, config: &LockConfig) {
        let Policy { base, key, kind, .. } = &config.0.defaults;
        for (name, given) in
            [("base", base.is_some()), ("key", key.is_some()), ("kind", kind.is_some())]
        {
            if given {
                let message = "belongs into a policy: the defaults are those of all locks; move it";
                self.report(format!("lock.defaults.{name}"), message);
            }
        }
        let tables = [("lock.base", &config.0.base), ("lock.policies", &config.0.policies)];
        for (table, entries) in tables {
            for name in entries.keys() {
                let path = join(table, name);
                if let Some(problem) = name_problem(table, name) {
                    self.report(path, problem);
                }
            }
        }
    }

    fn policies(&mut self, config: &LockConfig) -> HashMap<String, EffectivePolicy> {
        let defaults = config.defaults_entry();
        let on_quorum = config.0.quorum.is_some();
        self.report_all(entry::problems(std::slice::from_ref(&defaults), on_quorum));
        // The only check of a base that no policy uses.
        for (name, base) in &config.0.base {
            let chain = config.chain(Entry { path: join("lock.base", name), policy: base });
            self.bases(&chain, &config.0.base);
            self.report_all(entry::problems(&chain, on_quorum));
        }
        let put_together = config.0.policies.iter().map(|(name, policy)| {
            let mut chain = config.chain(Entry { path: join("lock.policies", name), policy });
            self.bases(&chain, &config.0.base);
            let effective = EffectivePolicy::new(name, &chain, &defaults);
            chain.push(defaults.clone());
            self.report_all(entry::problems(&chain, on_quorum));
            (name.clone(), effective)
        });
        put_together.collect()
    }

    /// Reports a base that does not exist, or that is in the chain already.
    fn bases(&mut self, chain: &[Entry<'_>], bases: &BTreeMap<String, Policy>) {
        let Some(last) = chain.last() else { return };
        let Some(name) = last.policy.base.as_deref() else { return };
        if !bases.contains_key(name) {
            let message = match nearest(name, bases.keys().map(String::as_str)) {
                Some(near) => format!("; did you mean {:?}?", shown(near)),
                None => "; add it, or take this out".to_owned(),
            };
            let path = format!("{}.base", last.path);
            return self.report(path, format!("there is no {}{message}", join("lock.base", name)));
        }
        // The circle, from its first name in the alphabet, so that all policies that lead into it say the same.
        let names: Vec<_> = chain.iter().filter_map(|entry| entry.policy.base.as_deref()).collect();
        let Some(begin) = names.iter().position(|seen| *seen == name) else { return };
        let names = &names[begin..names.len() - 1];
        let first = names.iter().enumerate().min_by_key(|(_, name)| **name).map_or(0, |(at, _)| at);
        let round = names[first..].iter().chain(&names[..first]).chain(&names[first..=first]);
        let round: Vec<_> = round.map(|name| shown(name)).collect();
        let path = format!("{}.base", join("lock.base", names[first]));
        let message = format!("bases go round in a circle: {}; break it", round.join(" → "));
        self.report(path, message);
    }
}

fn name_problem(table: &str, name: &str) -> Option<&'static str> {
    let is_of_name = |c: char| c.is_alphanumeric() || " -_.".contains(c);
    if name.is_empty() {
        Some("has no name; give it one")
    } else if !name.chars().all(is_of_name) {
        Some(
            "has a name with other characters than letters, digits, `-`, `_`, `.` and spaces; rename it",
        )
    } else if table == "lock.policies" && name == NO_POLICY {
        Some("has the name that metrics and logs give to locks without a policy; rename it")
    } else {
        None
    }
}
