//! What the server's and the client library's errors mean.
// S-33.

use std::error::Error;
use std::fmt;

use redis::RedisError;

use crate::error::{StoreError, StoreErrorKind};

/// What is known of a call that failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// There was no connection before the deadline: nothing ran.
    NotSent,
    /// The same, and why the last attempt to connect failed.
    Away(StoreError),
    /// There was no answer before the deadline: it may have run.
    TimedOut,
    /// The connection broke before the answer: it may have run.
    Broken(RedisError),
    /// The answer was another request's: it may have run.
    MixedUp,
    /// The server answered with an error.
    Server(RedisError),
    /// The server refuses new connections for a reason that waiting does not mend: nothing ran.
    Refused(StoreError),
}

/// An error of the client library, as the cause of one of ours. Its own text has that of its source in it, so that
/// it has no source here, or a reader of the chain would read that twice.
#[derive(Debug)]
pub(crate) struct Cause(pub(crate) RedisError);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {}

/// What the client library said, if that is why.
pub(crate) fn cause(error: &StoreError) -> Option<&RedisError> {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.filter_map(|error| error.downcast_ref::<Cause>()).map(|cause| &cause.0).next()
}

impl CallError {
    /// For a preparatory call: whatever became of it, the call it prepares has not run.
    pub(crate) fn nothing_ran(self) -> Self {
        match self {
            Self::TimedOut | Self::Broken(_) | Self::MixedUp => Self::NotSent,
            other => other,
        }
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotSent => {
                Self::new(StoreErrorKind::Unavailable, "there is no connection to the server")
            }
            CallError::TimedOut => Self::new(
                StoreErrorKind::OutcomeUnknown,
                "the server did not answer in time; the command may or may not have run",
            ),
            CallError::Broken(error) => Self::new(
                StoreErrorKind::OutcomeUnknown,
                "the connection broke; the command may or may not have run",
            )
            .with_source(Cause(error)),
            CallError::MixedUp => Self::new(
                StoreErrorKind::OutcomeUnknown,
                "the answer belonged to another request; the command may or may not have run",
            ),
            CallError::Server(error) => server_error(error),
            CallError::Away(error) => error.of_kind(StoreErrorKind::Unavailable),
            CallError::Refused(error) => error,
        }
    }
}

/// Classifies an error reply.
pub(crate) fn server_error(error: RedisError) -> StoreError {
    let code = error.code().unwrap_or_default().to_owned();
    let detail = error.detail().unwrap_or_default();
    let (kind, message) = match code.as_str() {
        "BUSY" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "TRYAGAIN" | "CLUSTERDOWN"
        | "MISCONF" | "READONLY" => {
            (StoreErrorKind::NotReady, format!("the server cannot serve locks now ({code})"))
        }
        "OOM" => (
            StoreErrorKind::OutOfMemory,
            "the server is out of memory; raise `maxmemory` or free some".to_owned(),
        ),
        "WRONGTYPE" => (StoreErrorKind::WrongType, own_words(detail)),
        "NOAUTH" => (
            StoreErrorKind::Denied,
            "the server wants a password; write redis://:password@host".to_owned(),
        ),
        "WRONGPASS" => {
            (StoreErrorKind::Denied, "the server refuses the user name or password".to_owned())
        }
        "NOPERM" => (StoreErrorKind::Denied, not_allowed()),
        "MOVED" | "ASK" => (
            StoreErrorKind::Config,
            "the server is a node of a cluster; connect to it with `connect_cluster`, or as \
             lock.cluster"
                .to_owned(),
        ),
        "CROSSSLOT" => (
            StoreErrorKind::Config,
            "the names of one lock are in different slots of the cluster; give them a common hash \
             tag, as in {order:7}:a and {order:7}:b"
                .to_owned(),
        ),
        // In a cluster, what belongs to a name may be half way to another node. The script stopped
        // there, with whatever it had done.
        _ if detail.contains("non local key") => (
            StoreErrorKind::OutcomeUnknown,
            "the lock is being moved to another node; the command may have run in part".to_owned(),
        ),
        // Inside a script a missing permission is a plain ERR: in these words by Redis 7.0, and in
        // those by later ones.
        "ERR"
            if detail.contains("user executing the script")
                || detail.starts_with("ACL failure in script") =>
        {
            (StoreErrorKind::Denied, not_allowed())
        }
        "ERR" if detail.contains("max number of clients") => {
            (StoreErrorKind::NotReady, "the server has too many connections".to_owned())
        }
        "ERR" if detail.contains("DB index is out of range") => {
            (StoreErrorKind::Config, "the server has no database of that number".to_owned())
        }
        _ => (
            StoreErrorKind::Protocol,
            "the server answered with an error that this version does not know".to_owned(),
        ),
    };
    StoreError::new(kind, message).with_source(Cause(error))
}

fn not_allowed() -> String {
    "the user may not run the lock scripts; `RedisStore` says what it needs".to_owned()
}

/// What a WRONGTYPE is about: our scripts say it themselves, the server only that it is one.
fn own_words(detail: &str) -> String {
    match detail.split_once(" script: ").map_or(detail, |(text, _)| text) {
        text if text.starts_with("the ") => text.to_owned(),
        _ => "a value that is no lock".to_owned(),
    }
}

/// A connection could not be made.
pub(crate) fn connect_error(error: RedisError) -> StoreError {
    #[cfg(feature = "tls-rustls")]
    if let Some((kind, message)) = crate::store::redis::server::tls::refusal(&error) {
        return StoreError::new(kind, message).with_source(Cause(error));
    }
    if error.is_io_error() {
        let message = if error.is_timeout() {
            "the server did not answer in time while connecting; check the address, and whether the \
             server wants TLS (rediss://) or not (redis://)"
        } else if is_closed(&error) {
            "the server closed the connection at once; check whether it has too many connections, or wants \
             TLS (rediss://) or not (redis://)"
        } else {
            "the server cannot be reached; check the address and that it runs"
        };
        return StoreError::new(StoreErrorKind::Unavailable, message).with_source(Cause(error));
    }
    match error.kind() {
        redis::ErrorKind::Parse => StoreError::new(
            StoreErrorKind::Config,
            "what answers there is not Redis; check host and port of the address",
        )
        .with_source(Cause(error)),
        redis::ErrorKind::InvalidClientConfig => {
            StoreError::new(StoreErrorKind::Config, "the address cannot be used")
                .with_source(Cause(error))
        }
        redis::ErrorKind::AuthenticationFailed => {
            StoreError::new(StoreErrorKind::Denied, "the server refuses the user name or password")
                .with_source(Cause(error))
        }
        _ => server_error(error),
    }
}

/// True if no connection was made at all: none accepts one there, or none in time.
pub(crate) fn was_unreached(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Unavailable && !was_closed(error)
}

/// True if a connection was made, and closed at once.
pub(crate) fn was_closed(error: &StoreError) -> bool {
    cause(error).is_some_and(is_closed)
}

fn is_closed(error: &RedisError) -> bool {
    error.is_connection_dropped() && !error.is_connection_refusal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use StoreErrorKind::{
        Config, Denied, NotReady, OutOfMemory, OutcomeUnknown, Protocol, WrongType,
    };

    /// By the server's own codes.
    // S-33.
    #[test]
    fn replies_are_classified_by_code() {
        let denied = "The user executing the script can't run this command or subcommand";
        for (code, detail, kind) in [
            ("BUSY", "Redis is busy running a script", NotReady),
            ("LOADING", "Redis is loading the dataset in memory", NotReady),
            ("MASTERDOWN", "Link with MASTER is down", NotReady),
            ("NOREPLICAS", "Not enough good replicas to write", NotReady),
            ("TRYAGAIN", "Multiple keys request during rehashing of slot", NotReady),
            ("CLUSTERDOWN", "The cluster is down", NotReady),
            ("MISCONF", "Redis is configured to save RDB snapshots", NotReady),
            ("READONLY", "You can't write against a read only replica", NotReady),
            ("ERR", "max number of clients reached", NotReady),
            ("OOM", "command not allowed when used memory > 'maxmemory'", OutOfMemory),
            ("WRONGTYPE", "Operation against a key holding the wrong kind", WrongType),
            ("NOAUTH", "Authentication required", Denied),
            ("WRONGPASS", "invalid username-password pair", Denied),
            ("NOPERM", "this user has no permissions", Denied),
            ("ERR", denied, Denied),
            ("ERR", "ACL failure in script: User x has no permissions to run 'get'", Denied),
            ("CROSSSLOT", "Keys in request don't hash to the same slot", Config),
            ("MOVED", "3999 127.0.0.1:7001", Config),
            ("ERR", "Script attempted to access a non local key in a cluster node", OutcomeUnknown),
            ("ERR", "something new", Protocol),
        ] {
            let error = redis::make_extension_error(code.to_owned(), Some(detail.to_owned()));
            let error = server_error(error);
            assert_eq!(error.kind(), kind, "{code} {detail}");
            assert_eq!(error.kind().is_transient(), matches!(kind, NotReady | OutcomeUnknown));
        }
    }
}
