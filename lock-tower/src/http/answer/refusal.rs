//! [`Refusal`]: that the lock kept a request from running, and what may be said of it.
//!
//! Never the key, the owner or the token, which may be made of names, addresses and secrets; those
//! are in the log, where the operator needs them.

use std::panic::Location;
use std::time::Duration;

use http::StatusCode;
use lock_runtime::error::{BusyReason, StoreErrorKind};
use lock_runtime::observe::NO_POLICY;
use lock_runtime::policy::BusyStatus;
use lock_runtime::{Lease, LockError};

use crate::http::answer::retry::{HoldTimes, retry_after};
use crate::http::request::key::KeyError;

/// What to expect of a store that fails: longer than a reconnect, shorter than a fail-over.
const STORE_OUTAGE: Duration = Duration::from_secs(2);

/// Why a request was not run, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Somebody else has the lock, and the request was not to wait.
    Busy,
    /// It waited, and the lock is still held.
    Timeout,
    /// The request's own deadline came before the lock.
    Deadline,
    /// Too many wait already.
    Overloaded,
    /// The store cannot be reached or fails, or the client is shut down.
    Unavailable,
    /// The request lacks what its key is made of.
    KeyMissing,
    /// What its key is made of is malformed, or the key too long.
    KeyInvalid,
    /// The request's body ended before it was complete, while the request waited: its client has left.
    BodyIncomplete,
    /// The hold was lost before the handler was done.
    Lost,
    /// There is no client, no such policy, or the layer is in the wrong place.
    Misconfigured,
}

impl RefusalKind {
    /// A name in small letters, as the last segment of a problem's `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "lock-busy",
            Self::Timeout => "lock-timeout",
            Self::Deadline => "lock-deadline",
            Self::Overloaded => "lock-overloaded",
            Self::Unavailable => "lock-unavailable",
            Self::KeyMissing => "lock-key-missing",
            Self::KeyInvalid => "lock-key-invalid",
            Self::BodyIncomplete => "lock-body-incomplete",
            Self::Lost => "lock-lost",
            Self::Misconfigured => "lock-misconfigured",
        }
    }

    /// A sentence for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Busy => "Another request holds this resource",
            Self::Timeout => "Other requests held this resource for too long",
            Self::Deadline => "The request's time was over before this resource was free",
            Self::Overloaded => "Too many requests wait for this resource",
            Self::Unavailable => "Locks are not available at the moment",
            Self::KeyMissing => "The request lacks what it locks",
            Self::KeyInvalid => "The request names no valid resource",
            Self::BodyIncomplete => "The request's body ended before it was complete",
            Self::Lost => "The request lost its hold on the resource before it was done",
            Self::Misconfigured => "The server cannot lock this resource",
        }
    }

    fn status(self, busy: BusyStatus) -> StatusCode {
        let busy_status = StatusCode::from_u16(busy.code()).unwrap_or(StatusCode::CONFLICT);
        // Where the key is who asks, it is he who asks too often, also if he was let wait.
        let principal = busy == BusyStatus::TooManyRequests;
        match self {
            Self::Busy => busy_status,
            Self::Timeout | Self::Overloaded if principal => busy_status,
            Self::Timeout | Self::Deadline | Self::Overloaded | Self::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::KeyMissing | Self::KeyInvalid | Self::BodyIncomplete => StatusCode::BAD_REQUEST,
            // Proxies repeat a 503.
            Self::Lost | Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn can_be_repeated(self) -> bool {
        matches!(
            self,
            Self::Busy | Self::Timeout | Self::Deadline | Self::Overloaded | Self::Unavailable
        )
    }

    fn of(error: &LockError) -> Self {
        match error {
            LockError::Busy { reason: BusyReason::Held, .. } => Self::Busy,
            LockError::Busy { .. } => Self::Overloaded,
            LockError::Timeout { .. } => Self::Timeout,
            LockError::Store(_) | LockError::NotReplicated { .. } | LockError::Closed => {
                Self::Unavailable
            }
            LockError::InvalidKey { .. } => Self::KeyInvalid,
            LockError::Lost { .. } => Self::Lost,
            _ => Self::Misconfigured,
        }
    }
}

/// What a client is to be told: input of a [`RefusalResponder`](crate::http::RefusalResponder).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    status: StatusCode,
    retry_after: Option<Duration>,
    detail: Option<String>,
    grpc: bool,
}

impl Refusal {
    /// Why.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// The status that fits, the layer's [`busy`](crate::http::HttpLockLayerBuilder::busy) included.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// When to come back: whole seconds, at least one, spread at random. `None` where coming back with
    /// the same request is no use.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What is wrong with the request, where it is.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// True if the handler has not run, so that the request can be sent again as it is, whatever its
    /// method. After a loss nobody knows how far it came.
    #[must_use]
    pub fn is_unexecuted(&self) -> bool {
        self.kind != RefusalKind::Lost
    }

    /// True if the client speaks gRPC and understands no other answer.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        self.grpc
    }
}

/// What a refusal depends on beside its reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    pub(crate) busy: BusyStatus,
    pub(crate) lease: Option<Lease>,
    pub(crate) times: &'a HoldTimes,
    /// The wait was the request's own.
    pub(crate) deadline: bool,
    pub(crate) grpc: bool,
    pub(crate) about: About<'a>,
}

/// What to call the lock in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    /// None as long as the request has no key.
    pub(crate) name: Option<&'a str>,
    pub(crate) policy: &'a str,
    /// Where the layer was made; none where a handler locks by itself.
    pub(crate) site: Option<&'static Location<'static>>,
}

impl Default for About<'_> {
    fn default() -> Self {
        Self { name: None, policy: NO_POLICY, site: None }
    }
}

/// Logs what became of a request, with the fields that every such line has.
macro_rules! log_request {
    ($level:ident, $about:expr, $($rest:tt)+) => {
        tracing::$level!(
            lock.name = ?$about.name.unwrap_or_default(),
            lock.policy = ?$about.policy,
            lock.site = $about.site.map(tracing::field::display),
            $($rest)+
        )
    };
}

impl Circumstances<'_> {
    /// A request whose lock was not taken, or was lost; told to the log as well.
    pub(crate) fn of_lock(self, error: &LockError) -> Refusal {
        let kind = match RefusalKind::of(error) {
            RefusalKind::Timeout if self.deadline => RefusalKind::Deadline,
            kind => kind,
        };
        log(kind, self.about, error);
        let expected = match (error, self.lease, error.holder_remaining()) {
            (LockError::Store(_) | LockError::NotReplicated { .. } | LockError::Closed, ..) => {
                STORE_OUTAGE
            }
            // With a watchdog that is always about the whole lease.
            (_, Some(Lease::Fixed(_)), Some(left)) => left,
            _ => self.times.mean(),
        };
        self.refusal(kind, None, expected)
    }

    /// A request of which no key could be made.
    pub(crate) fn of_key(self, error: &KeyError) -> Refusal {
        let kind = match error {
            KeyError::Invalid(error) => return self.of_lock(error),
            KeyError::Missing(_) => RefusalKind::KeyMissing,
            KeyError::Malformed { .. } => RefusalKind::KeyInvalid,
            KeyError::Misplaced(_) => {
                let error = error as &dyn std::error::Error;
                log_request!(error, self.about, error, "request turned away");
                return self.refusal(RefusalKind::Misconfigured, None, Duration::ZERO);
            }
        };
        let cause = error as &dyn std::error::Error;
        log_request!(debug, self.about, error = cause, "request turned away");
        self.refusal(kind, Some(error.to_string()), Duration::ZERO)
    }

    /// A request that is given up because its body ended too early.
    pub(crate) fn of_body(self, error: &(dyn std::error::Error + 'static)) -> Refusal {
        let what = "request given up: its client left while it waited for its lock";
        log_request!(debug, self.about, error, "{what}");
        self.refusal(RefusalKind::BodyIncomplete, None, Duration::ZERO)
    }

    fn refusal(self, kind: RefusalKind, detail: Option<String>, expected: Duration) -> Refusal {
        let retry_after =
            kind.can_be_repeated().then(|| Duration::from_secs(retry_after(expected)));
        let (status, grpc) = (kind.status(self.busy), self.grpc);
        Refusal { kind, status, retry_after, detail, grpc }
    }
}

fn log(kind: RefusalKind, about: About<'_>, error: &LockError) {
    // The error's name has the namespace.
    let about = About { name: error.key().or(about.name), ..about };
    let cause = error as &dyn std::error::Error;
    match (kind, needs_an_operator(error)) {
        (
            RefusalKind::Busy
            | RefusalKind::Timeout
            | RefusalKind::Deadline
            | RefusalKind::KeyInvalid,
            _,
        ) => {
            log_request!(debug, about, error = cause, "request turned away");
        }
        (RefusalKind::Misconfigured, _) | (_, true) => {
            let what = "request turned away: the lock cannot be taken";
            log_request!(error, about, error = cause, "{what}");
        }
        (RefusalKind::Lost, _) => log_request!(warn, about, error = cause, "request cut off"),
        _ => log_request!(warn, about, error = cause, "request turned away"),
    }
}

/// True if waiting does not help.
fn needs_an_operator(error: &LockError) -> bool {
    let LockError::Store(error) = error else { return false };
    matches!(
        error.kind(),
        StoreErrorKind::OutOfMemory
            | StoreErrorKind::Denied
            | StoreErrorKind::Config
            | StoreErrorKind::Protocol
    )
}
