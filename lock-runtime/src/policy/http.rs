//! [`HttpPolicy`]: the settings that a policy has for layers that lock requests.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};

use super::table::table;
use super::text::{self, Number};

/// The settings that a policy has for layers that lock HTTP requests; the layer decides those that it omits.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{BusyStatus, HoldUntil, LockConfig};
///
/// let config = LockConfig::from_toml(
///     r#"
///     [lock.policies.checkout]
///     http = { busy = 423, hold = "body", methods = ["POST"] }
///     "#,
/// )?;
/// let policy = config.policy("checkout")?;
/// assert_eq!(policy.http().busy, Some(BusyStatus::Locked));
/// assert_eq!(policy.http().hold, Some(HoldUntil::Body));
/// assert_eq!(policy.http().safe_methods, None);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[non_exhaustive]
pub struct HttpPolicy {
    /// The answer to a request that finds the lock busy.
    pub busy: Option<BusyStatus>,
    /// When the lock is released.
    pub hold: Option<HoldUntil>,
    /// The methods that lock.
    pub methods: Option<Methods>,
    /// What requests with a safe method do.
    pub safe_methods: Option<SafeMethods>,
    /// What happens to a request that is missing a value that the lock key needs.
    pub on_missing: Option<OnMissingKey>,
    /// What happens to the handler when the client has disconnected.
    pub on_disconnect: Option<OnDisconnect>,
    /// How long a response waits for the release.
    #[serde(deserialize_with = "text::duration")]
    pub release_timeout: Option<Duration>,
    /// How long a body may hold the lock while it is sent; in a file, `"5m"` or `"unlimited"`, which is
    /// [`Duration::MAX`].
    #[serde(deserialize_with = "text::limit")]
    pub max_body_hold: Option<Duration>,
}

table!(HttpPolicy, "a table such as { busy = 409 }");

impl HttpPolicy {
    /// Returns these settings, with those of `lower` where they have none.
    pub(super) fn or(self, lower: &Self) -> Self {
        Self {
            busy: self.busy.or(lower.busy),
            hold: self.hold.or(lower.hold),
            methods: self.methods.or_else(|| lower.methods.clone()),
            safe_methods: self.safe_methods.or(lower.safe_methods),
            on_missing: self.on_missing.or(lower.on_missing),
            on_disconnect: self.on_disconnect.or(lower.on_disconnect),
            release_timeout: self.release_timeout.or(lower.release_timeout),
            max_body_hold: self.max_body_hold.or(lower.max_body_hold),
        }
    }
}

/// Which requests a layer locks, by their method, in capitals. GET includes HEAD, which routers answer with
/// GET's handler.
///
/// In a file a list, `"all"`, or `"all but GET, OPTIONS"`. The default is all but GET, HEAD, OPTIONS and TRACE,
/// which only read: an unknown method may write, so it locks.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{HttpPolicy, Methods};
///
/// let http: HttpPolicy = toml::from_str("methods = 'all but GET'")?;
/// let methods = http.methods.unwrap_or_default();
/// assert!(methods.contains("PROPFIND") && !methods.contains("HEAD"));
/// assert!(!Methods::default().contains("TRACE"));
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Methods {
    /// These methods.
    These(Vec<String>),
    /// Every method.
    All,
    /// Every method except these.
    AllBut(Vec<String>),
}

impl Default for Methods {
    fn default() -> Self {
        Self::AllBut(["GET", "HEAD", "OPTIONS", "TRACE"].map(str::to_owned).into())
    }
}

impl Methods {
    /// Returns true if requests with that method lock.
    #[must_use]
    pub fn contains(&self, method: &str) -> bool {
        let named = |names: &[String]| {
            names.iter().any(|name| name == method || (name == "GET" && method == "HEAD"))
        };
        match self {
            Self::These(names) => named(names),
            Self::All => true,
            Self::AllBut(names) => !named(names),
        }
    }

    /// Returns the methods that are named, to lock them or not to.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self {
            Self::These(names) | Self::AllBut(names) => names,
            Self::All => &[],
        }
    }

    /// Reads `all` or `all but A, B`.
    fn read(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::All);
        }
        let names = text.strip_prefix("all but ")?;
        Some(Self::AllBut(names.split(',').map(|name| name.trim().to_owned()).collect()))
    }
}

impl<'de> Deserialize<'de> for Methods {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Methods;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"methods: a list such as ["POST"], "all", or "all but GET, OPTIONS""#)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Methods, E> {
                let read = Methods::read(text.trim());
                read.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Methods, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(names)).map(Methods::These)
            }
        }
        from.deserialize_any(Words)
    }
}

/// The status of the answer to a request that finds the lock busy; in a file, its number.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::BusyStatus;
///
/// assert_eq!(BusyStatus::Conflict.code(), 409);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BusyStatus {
    /// 409: another request changes the resource.
    Conflict,
    /// 423: the resource is locked, and clients know about the lock.
    Locked,
    /// 429: the key identifies the caller, which sends too many requests.
    TooManyRequests,
    /// 503: try again later.
    Unavailable,
}

impl BusyStatus {
    /// Returns the status code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Conflict => 409,
            Self::Locked => 423,
            Self::TooManyRequests => 429,
            Self::Unavailable => 503,
        }
    }
}

impl<'de> Deserialize<'de> for BusyStatus {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let of = |code| {
            let all = [Self::Conflict, Self::Locked, Self::TooManyRequests, Self::Unavailable];
            all.into_iter().find(|status| u64::from(status.code()) == code)
        };
        from.deserialize_any(Number { read: of, expected: "a status: 409, 423, 429 or 503" })
    }
}

/// When a layer releases the lock of a request.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{HoldUntil, HttpPolicy};
///
/// let http: HttpPolicy = toml::from_str("hold = 'response'")?;
/// assert_eq!(http.hold.unwrap_or_default(), HoldUntil::Response);
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HoldUntil {
    /// With the response if its body is complete in memory, else at the end of the body.
    #[default]
    Auto,
    /// When the handler returns.
    Response,
    /// When the body was sent (except for buffers), has failed or was dropped.
    Body,
}

/// What requests with a safe method do.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{HttpPolicy, SafeMethods};
///
/// let http: HttpPolicy = toml::from_str("safe_methods = 'shared'")?;
/// assert_eq!(http.safe_methods.unwrap_or_default(), SafeMethods::Shared);
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SafeMethods {
    /// They run without a lock.
    #[default]
    None,
    /// They acquire the read side.
    Shared,
}

/// What happens to a request that is missing a value that the lock key needs.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{HttpPolicy, OnMissingKey};
///
/// let http: HttpPolicy = toml::from_str("on_missing = 'skip'")?;
/// assert_eq!(http.on_missing.unwrap_or_default(), OnMissingKey::Skip);
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnMissingKey {
    /// It is answered with 400.
    #[default]
    Reject,
    /// It runs without a lock.
    Skip,
}

/// What happens to the handler of a request whose client has disconnected.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{HttpPolicy, OnDisconnect};
///
/// let http: HttpPolicy = toml::from_str("on_disconnect = 'finish'")?;
/// assert_eq!(http.on_disconnect.unwrap_or_default(), OnDisconnect::Finish);
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnDisconnect {
    /// It is dropped, and the lock released.
    #[default]
    Cancel,
    /// It runs to its end in a task of its own, under the lock.
    Finish,
}
