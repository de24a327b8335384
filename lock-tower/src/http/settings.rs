//! The settings that a policy has for layers that lock HTTP requests.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use lock_runtime::__layer_v1 as runtime;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::http::methods::{Methods, READING};

/// `http = {…}` of a policy; the layer decides what it omits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpPolicy {
    /// The answer to a request that finds the lock busy.
    #[serde(deserialize_with = "busy")]
    pub(crate) busy: Option<StatusCode>,
    /// When the lock is released.
    pub(crate) hold: Option<HoldUntil>,
    /// The methods that lock.
    pub(crate) methods: Option<Methods>,
    /// What requests with a safe method do.
    pub(crate) safe_methods: Option<SafeMethods>,
    /// What happens to a request that is missing a value that the lock key needs.
    pub(crate) on_missing: Option<OnMissingKey>,
    /// What happens to the handler when the client has disconnected.
    pub(crate) on_disconnect: Option<OnDisconnect>,
    /// How long a response waits for the release.
    #[serde(deserialize_with = "duration")]
    pub(crate) release_timeout: Option<Duration>,
    /// How long a body may hold the lock while it is sent; `"unlimited"` is [`Duration::MAX`].
    #[serde(deserialize_with = "limit")]
    pub(crate) max_body_hold: Option<Duration>,
}

impl HttpPolicy {
    /// Returns these settings, with those of `lower` where they have none.
    pub(crate) fn or(self, lower: Self) -> Self {
        Self {
            busy: self.busy.or(lower.busy),
            hold: self.hold.or(lower.hold),
            methods: self.methods.or(lower.methods),
            safe_methods: self.safe_methods.or(lower.safe_methods),
            on_missing: self.on_missing.or(lower.on_missing),
            on_disconnect: self.on_disconnect.or(lower.on_disconnect),
            release_timeout: self.release_timeout.or(lower.release_timeout),
            max_body_hold: self.max_body_hold.or(lower.max_body_hold),
        }
    }

    /// True if GET and HEAD acquire the read side, unless their methods lock.
    pub(crate) fn shares(&self) -> bool {
        self.safe_methods == Some(SafeMethods::Shared)
    }

    /// Returns the side that a request with that method takes; `None` if it needs no lock.
    pub(crate) fn side(&self, method: &str) -> Option<Side> {
        let locks = match &self.methods {
            Some(methods) => methods.contains(method),
            None => !READING.contains(&method),
        };
        let shares = || self.shares() && matches!(method, "GET" | "HEAD");
        if locks { Some(Side::Main) } else { shares().then_some(Side::Shared) }
    }
}

/// Which side of a read/write lock a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The write side, or a lock that has no sides.
    Main,
    /// The read side.
    Shared,
}

/// One entry of `[[lock.routes]]`: requests, and the policy of their lock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockRoute {
    /// The methods; by default those of the policy.
    #[serde(default)]
    pub(crate) methods: Option<Methods>,
    /// The route's path, such as `/orders/{id}`, or `/admin/{*rest}` for all paths below `/admin`.
    pub(crate) path: String,
    /// The policy's name.
    pub(crate) policy: String,
    /// The key template, in place of the policy's. If neither has one, the layer needs a key in code.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// When the lock is released, in place of the policy's setting.
    #[serde(default)]
    pub(crate) hold: Option<HoldUntil>,
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let expected = r#"a duration with its unit, such as "250ms" or "1m 30s""#;
    from.deserialize_any(runtime::Text { read: runtime::duration, expected }).map(Some)
}

fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let read = |text: &str| match text {
        "unlimited" => Some(Duration::MAX),
        text => runtime::duration(text),
    };
    from.deserialize_any(runtime::Text {
        read,
        expected: r#"a duration such as "5m", or "unlimited""#,
    })
    .map(Some)
}

/// The statuses that a busy lock may have: another request changes the resource; the resource is locked, and clients
/// know about the lock; the key identifies the caller, which sends too many requests; try again later.
pub(crate) const BUSY: [StatusCode; 4] = [
    StatusCode::CONFLICT,
    StatusCode::LOCKED,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
];

fn busy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StatusCode>, D::Error> {
    struct Code;
    impl Visitor<'_> for Code {
        type Value = StatusCode;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a status: 409, 423, 429 or 503")
        }

        fn visit_u64<E: Error>(self, code: u64) -> Result<StatusCode, E> {
            let found = BUSY.into_iter().find(|status| u64::from(status.as_u16()) == code);
            found.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(code), &self))
        }
    }
    from.deserialize_any(Code).map(Some)
}

/// When a layer releases the lock of a request.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SafeMethods {
    /// They run without a lock.
    #[default]
    None,
    /// They acquire the read side.
    Shared,
}

/// What happens to a request that is missing a value that the lock key needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnMissingKey {
    /// It is answered with 400.
    #[default]
    Reject,
    /// It runs without a lock.
    Skip,
}

/// What happens to the handler of a request whose client has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnDisconnect {
    /// It is dropped, and the lock released.
    #[default]
    Cancel,
    /// It runs to its end in a task of its own, under the lock.
    Finish,
}
