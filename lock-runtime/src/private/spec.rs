//! The lock that one call of an annotated function needs.

use std::sync::Arc;
use std::time::Duration;

use super::body::{Seen, View};
use super::returns::CanSay;
use crate::acquire::Acquire;
use crate::any_lock::AnyLock;
use crate::client::LockClient;
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::lease::Hold;
use crate::observe::{Label, log_lock};
use crate::options::{
    DEFAULT_LEASE, Lease, LockKind, LockOptions, OnReleaseLost, ReleaseTerms, Wait,
};
use crate::site::{CallSite, LockSite};

/// An attribute without options.
pub const UNSET: LockOptions = LockOptions::new();

/// `lease = watchdog`
pub const WATCHDOG: Lease = Lease::Watchdog(DEFAULT_LEASE);

/// A literal number of permits, which the attribute has checked.
pub const fn semaphore(permits: u32) -> LockKind {
    LockKind::Semaphore(permits)
}

/// A type that `client = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock client",
    note = "`client = …` takes a `LockClient`, a reference to one, or an `Arc` of one"
)]
pub trait AsClient {
    /// Returns the client.
    fn as_client(&self) -> &LockClient;
}

impl AsClient for LockClient {
    fn as_client(&self) -> &LockClient {
        self
    }
}

impl<C: AsClient + ?Sized> AsClient for &C {
    fn as_client(&self) -> &LockClient {
        (**self).as_client()
    }
}

impl<C: AsClient + ?Sized> AsClient for Arc<C> {
    fn as_client(&self) -> &LockClient {
        (**self).as_client()
    }
}

#[derive(Debug)]
enum Keys {
    One(LockKey),
    Many(Vec<LockKey>),
}

/// The site of the attribute, and the values that only the call knows: keys, and the values of expressions.
#[derive(Debug)]
pub struct CallSpec {
    site: &'static LockSite,
    keys: Result<Keys, LockError>,
    client: Option<LockClient>,
    options: LockOptions,
    when: Option<bool>,
    /// `None` if the body sees nothing of its lock.
    view: Option<View>,
    names_guard: bool,
    has_fallback: bool,
}

impl CallSpec {
    /// The site's settings for this key.
    pub fn new(site: &'static LockSite, key: Result<LockKey, LockError>) -> Self {
        Self::of(site, key.map(Keys::One))
    }

    /// The site's settings for all of these keys.
    pub fn all<K: IntoLockKey>(site: &'static LockSite, keys: impl IntoIterator<Item = K>) -> Self {
        let keys = keys.into_iter().map(K::into_lock_key).collect::<Result<Vec<_>, _>>();
        let keys = keys.map(|keys| match <[LockKey; 1]>::try_from(keys) {
            Ok([key]) => Keys::One(key),
            Err(keys) => Keys::Many(keys),
        });
        Self::of(site, keys)
    }

    fn of(site: &'static LockSite, keys: Result<Keys, LockError>) -> Self {
        let options = site.options().clone();
        Self {
            site,
            keys,
            client: None,
            options,
            when: None,
            view: None,
            names_guard: false,
            has_fallback: false,
        }
    }

    /// `client = …`
    #[must_use]
    pub fn client<C: AsClient + ?Sized>(mut self, client: &C) -> Self {
        self.client = Some(client.as_client().clone());
        self
    }

    /// `when = …`
    #[must_use]
    pub fn when(mut self, when: bool) -> Self {
        self.when = Some(when);
        self
    }

    /// `guard = …`
    #[must_use]
    pub fn names_guard(mut self) -> Self {
        self.names_guard = true;
        self.view.get_or_insert_default();
        self
    }

    /// `on_busy = fallback(…)`
    #[must_use]
    pub fn has_fallback(mut self) -> Self {
        self.has_fallback = true;
        self.view.get_or_insert_default();
        self
    }

    /// Returns the view of the body as well, if one of the two is set. In one step: a variable that is used twice would keep the
    /// spec, and lints would have it dropped earlier.
    pub fn with_view(self) -> (Self, View) {
        let view = self.view.clone().unwrap_or_default();
        (self, view)
    }

    /// `kind = semaphore(…)`
    #[must_use]
    pub fn semaphore(mut self, permits: u32) -> Self {
        self.options.kind = Some(LockKind::Semaphore(permits));
        self
    }

    /// `wait = …`
    #[must_use]
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.options.wait = Some(wait.into());
        self
    }

    /// `lease = …`
    #[must_use]
    pub fn lease(mut self, lease: Lease) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// `at_least = …`
    #[must_use]
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.options.at_least = Some(at_least);
        self
    }

    /// `release_timeout = …`
    #[must_use]
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        self.options.release_timeout = Some(release_timeout);
        self
    }

    /// `max_hold = …`
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Returns the site of the attribute.
    #[cfg(feature = "blocking")]
    pub(super) fn site(&self) -> &'static LockSite {
        self.site
    }

    /// Returns false if `when` is false.
    pub(super) fn is_wanted(&self) -> bool {
        self.when != Some(false)
    }

    /// Starts to acquire the lock that the call asks for.
    ///
    /// An invalid key or option makes an acquire that fails, because a call whose policy is not enforced
    /// runs anyway. A missing client or policy fails the call: without it, whether the call is enforced is unknown.
    ///
    /// # Panics
    ///
    /// If there is no client and the function cannot return the error: a call that is skipped would look as if another
    /// process ran the job.
    #[track_caller]
    pub(super) fn lock(self, can_say: CanSay) -> Lock {
        let Self { site, keys, client, options, when, view, names_guard, has_fallback } = self;
        let client = client.or_else(LockClient::current).ok_or_else(|| no_client(site));
        if let (Err(error), false) = (&client, can_say.errors) {
            panic!("{error}");
        }
        // A call that another process makes in its place does not wait for that process, and a call with a fallback runs
        // the fallback at once.
        let unless_said = (can_say.skipped || has_fallback).then_some(Wait::None);
        let resolved = client.and_then(|client| {
            let resolved = resolve(&client, site, options, unless_said)?;
            Ok((client, resolved))
        });
        let (client, resolved) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return Lock::failed(site, keys.err().unwrap_or(error)),
        };
        let Resolved { options, over, label, enforced } = resolved;
        let label = label.at(CallSite::Attribute(site)).enforced(enforced);
        let locked = keys.map(|keys| {
            let kind = options.kind.unwrap_or_default();
            let options = options.over_shared(&over);
            let terms = options.release_terms();
            let lock = match keys {
                Keys::One(key) => client.any_lock_with(kind, key, options),
                Keys::Many(keys) => client.any_lock_of_all(kind, keys).replace(options),
            };
            (lock, terms)
        });
        let (lock, mut terms) =
            locked.unwrap_or_else(|error| (AnyLock::invalid(error), ReleaseTerms::LOG));
        let about =
            can_say.logs().then(|| About { name: lock.name().cloned(), label: label.clone() });
        // Without `when` a body that names its guard has no value for a missing one.
        let enforced = enforced || names_guard && when.is_none();
        // A call that always runs does not report a loss either.
        if !enforced {
            terms.on_lost = OnReleaseLost::Log;
        }
        let acquire = lock.labelled(label).acquire_once(enforced);
        Lock { about, acquire, terms, enforced, view, has_fallback }
    }
}

fn no_client(site: &LockSite) -> LockError {
    LockError::NoClient { site: site.name().to_owned() }
}

/// The lock of a call, for the log.
#[derive(Debug, Clone)]
pub(super) struct About {
    /// `None` if the name is invalid.
    pub(super) name: Option<LockKey>,
    pub(super) label: Label,
}

impl About {
    /// The description of a lock that could not be created.
    pub(super) fn site(site: &'static LockSite) -> Self {
        Self { name: None, label: Label::default().at(CallSite::Attribute(site)) }
    }

    pub(super) fn of(hold: &Hold) -> Self {
        Self { name: Some(hold.target.key().clone()), label: hold.recorder.label() }
    }

    /// Logs a call that did not run if `has_run` is false, or else one whose lock was lost, if the return value does not report
    /// it. An operator repeats the one and checks the data of the other.
    pub(super) fn log_failure(&self, error: &LockError, can_say: CanSay, has_run: bool) {
        let name = self.name.as_ref().map_or("", LockKey::as_str);
        if can_say.skipped && error.is_contended() {
            log_lock!(debug, name, self.label, "skipped: another holder has the lock");
        } else if !can_say.errors {
            let what = match has_run {
                false => "the call did not run, and its return type has no room to say so",
                true => {
                    "the call was stopped before its end, or its lock ended before it, and its return type has no room to say so"
                }
            };
            let error = error as &dyn std::error::Error;
            log_lock!(error, name, self.label, error, "{what}");
        }
    }
}

/// The lock of one call, whose acquire has not been polled.
pub(super) struct Lock {
    /// `None` if a failure is not logged.
    pub(super) about: Option<About>,
    pub(super) acquire: Acquire,
    pub(super) terms: ReleaseTerms,
    /// False if the body always runs, and the call only records what would have blocked it.
    pub(super) enforced: bool,
    pub(super) view: Option<View>,
    has_fallback: bool,
}

impl Lock {
    /// A lock that could not be created: its acquire fails.
    pub(super) fn failed(site: &'static LockSite, error: LockError) -> Self {
        Self {
            acquire: Acquire::failed(error),
            terms: ReleaseTerms::LOG,
            enforced: true,
            about: Some(About::site(site)),
            view: None,
            has_fallback: false,
        }
    }

    /// Returns true if the call goes on after a failed acquire: with its fallback, or without a lock.
    pub(super) fn goes_on_without(&self, error: &LockError) -> bool {
        let falls_back = self.enforced && self.has_fallback && error.is_contended();
        if let (true, Some(view)) = (falls_back, &self.view) {
            // The body looks here and runs the fallback.
            view.show(Seen::Busy);
        }
        falls_back || !self.enforced
    }
}

struct Resolved {
    options: LockOptions,
    /// The options of the client.
    over: Arc<LockOptions>,
    /// The label of the policy in metrics and spans.
    label: Label,
    enforced: bool,
}

/// Resolves the attribute, its policy and the defaults.
#[cfg(feature = "policy")]
fn resolve(
    client: &LockClient,
    site: &LockSite,
    mut said: LockOptions,
    unless_said: Option<Wait>,
) -> Result<Resolved, LockError> {
    let policy = site.policy().map(|name| client.effective_policy(name)).transpose()?;
    // Before the defaults, which are not specific to this function.
    if policy.as_ref().is_none_or(|policy| policy.own().wait.is_none()) {
        said.wait = said.wait.or(unless_said);
    }
    Ok(match policy {
        None => Resolved {
            options: said,
            over: client.shared_options(),
            label: Label::default(),
            enforced: true,
        },
        Some(policy) => Resolved {
            options: said.or(policy.options()),
            over: client.own_options(),
            label: policy.label(),
            enforced: policy.is_enforced(),
        },
    })
}

/// Resolves the attribute and the defaults.
#[cfg(not(feature = "policy"))]
fn resolve(
    client: &LockClient,
    site: &LockSite,
    mut said: LockOptions,
    unless_said: Option<Wait>,
) -> Result<Resolved, LockError> {
    if let Some(name) = site.policy() {
        return Err(LockError::UnknownPolicy {
            policy: name.to_owned(),
            detail: "`lock_runtime` was built without its feature `policy`".to_owned(),
        });
    }
    said.wait = said.wait.or(unless_said);
    let (over, label) = (client.shared_options(), Label::default());
    Ok(Resolved { options: said, over, label, enforced: true })
}
