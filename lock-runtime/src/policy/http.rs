//! [`HttpPolicy`]: what a policy says to layers that lock requests.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use super::methods::Methods;
use super::table::table;
use super::text;

/// What a policy says to layers that lock HTTP requests; what it leaves out is the layer's business.
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
    /// What other methods, those that only read, do.
    pub safe_methods: Option<SafeMethods>,
    /// What happens to a request that lacks what its key is made of.
    pub on_missing: Option<OnMissingKey>,
    /// What happens to the handler when the client has gone.
    pub on_disconnect: Option<OnDisconnect>,
    /// For how long an answer waits for the release.
    #[serde(deserialize_with = "text::duration")]
    pub release_timeout: Option<Duration>,
    /// For how long a body may hold the lock while it is sent; in a file, `"5m"` or `"unlimited"`, which is
    /// [`Duration::MAX`].
    #[serde(deserialize_with = "text::limit")]
    pub max_body_hold: Option<Duration>,
}

table!(HttpPolicy, "a table such as { busy = 409 }");

impl HttpPolicy {
    /// This, and where it is silent what `lower` says.
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

/// The answer to a request that finds the lock busy; in a file, its number.
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
    /// 423: the resource is locked, and the lock is something that clients know of.
    Locked,
    /// 429: the key is who asks, so this one asks too often.
    TooManyRequests,
    /// 503: come back later.
    Unavailable,
}

impl BusyStatus {
    /// The status code.
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
        struct Code;
        impl Visitor<'_> for Code {
            type Value = BusyStatus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status: 409, 423, 429 or 503")
            }

            fn visit_u64<E: Error>(self, code: u64) -> Result<BusyStatus, E> {
                match code {
                    409 => Ok(BusyStatus::Conflict),
                    423 => Ok(BusyStatus::Locked),
                    429 => Ok(BusyStatus::TooManyRequests),
                    503 => Ok(BusyStatus::Unavailable),
                    _ => Err(E::invalid_value(Unexpected::Unsigned(code), &self)),
                }
            }

            fn visit_i64<E: Error>(self, code: i64) -> Result<BusyStatus, E> {
                match u64::try_from(code) {
                    Ok(code) => self.visit_u64(code),
                    Err(_) => Err(E::invalid_value(Unexpected::Signed(code), &self)),
                }
            }
        }
        from.deserialize_any(Code)
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
    /// With the response if its body is complete in memory, else with the end of the body.
    #[default]
    Auto,
    /// When the handler returns.
    Response,
    /// When the body has been sent, to within what buffers take, has failed or been dropped.
    Body,
}

/// What requests do whose method only reads.
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
    /// They take the read side.
    Shared,
}

/// What happens to a request that lacks what its key is made of.
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

/// What happens to the handler of a request whose client has gone.
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
