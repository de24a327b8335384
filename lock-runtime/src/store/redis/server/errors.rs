//! The meaning of errors of the server and of the client library.
// S-33.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use redis::{ConnectionInfo, RedisError};

use crate::error::{StoreError, StoreErrorKind, rounded};

/// The known effect of a call that failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// There was no connection before the deadline: nothing ran.
    NotSent,
    /// The same, with the error of the last attempt to connect.
    Away(StoreError),
    /// There was no answer before the deadline: it may have run.
    TimedOut {
        /// The address of the server.
        server: String,
        /// How long it had, if that is known.
        limit: Option<Duration>,
    },
    /// The connection to the server of that address broke before the answer: it may have run.
    Broken(RedisError, String),
    /// The answer was another request's: it may have run.
    MixedUp,
    /// The server of that address answered with an error.
    Server(RedisError, String),
    /// The server refuses new connections, and permanently: nothing ran.
    Refused(StoreError),
}

/// An error of the client library, as the source of an error of this crate. It hides its own source, whose text
/// it repeats.
#[derive(Debug)]
pub(crate) struct Cause(pub(crate) RedisError);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {}

/// The error of the client library that caused this error.
pub(crate) fn cause(error: &StoreError) -> Option<&RedisError> {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.filter_map(|error| error.downcast_ref::<Cause>()).map(|cause| &cause.0).next()
}

impl CallError {
    /// The error of a call that had to succeed before the call in question was sent.
    pub(crate) fn nothing_ran(self) -> Self {
        match self {
            Self::TimedOut { .. } | Self::Broken(..) | Self::MixedUp => Self::NotSent,
            other => other,
        }
    }

    /// The error of a call that had so much time.
    pub(crate) fn within(self, limit: Duration) -> Self {
        match self {
            Self::TimedOut { server, .. } => Self::TimedOut { server, limit: Some(limit) },
            other => other,
        }
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        let unknown = |what: &str| {
            let message = format!("{what}; the command may or may not have run");
            Self::new(StoreErrorKind::OutcomeUnknown, message)
        };
        match error {
            CallError::NotSent => {
                Self::new(StoreErrorKind::Unavailable, "there is no connection to the server")
            }
            CallError::TimedOut { server, limit } => {
                let limit = limit.map(|limit| format!("within {:?}", rounded(limit)));
                let limit = limit.as_deref().unwrap_or("in time");
                unknown(&format!("the server at {server} did not answer {limit}"))
            }
            CallError::Broken(error, server) => {
                unknown(&format!("the connection to the server at {server} broke"))
                    .with_source(Cause(error))
            }
            CallError::MixedUp => unknown("the answer belonged to another request"),
            CallError::Server(error, server) => server_error(error, server),
            CallError::Away(error) => error.of_kind(StoreErrorKind::Unavailable),
            CallError::Refused(error) => error,
        }
    }
}

/// An error that the user must correct.
pub(crate) fn config_error(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Config, message.into())
}

/// What a server answers that has no database of the wanted number.
const NO_DATABASE: &str = "DB index is out of range";

const WRONG_PASSWORD: &str = "refuses the user name or password; check both in the address, where special \
     characters are percent-encoded, such as %40 for @";

/// What the user lacks, by a reply of the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Denial<'a> {
    /// The right to run a command; `None` if the server does not name it.
    Command(Option<&'a str>),
    /// A pattern for a key.
    Key,
    /// A pattern for a channel.
    Channel,
}

/// What the server denies the user; `None` for all other errors.
pub(crate) fn denial(error: &RedisError) -> Option<Denial<'_>> {
    let detail = error.detail().unwrap_or_default();
    // Inside a script a denial is a plain ERR, with the first text in Redis 7.0, with the other later.
    let in_script =
        detail.contains("user executing the script") || detail.starts_with("ACL failure in script");
    match error.code() {
        Some("NOPERM") => {}
        Some("ERR") if in_script => {}
        _ => return None,
    }
    let text = detail.strip_prefix("ACL failure in script: ").unwrap_or(detail);
    let text = match text.rsplit_once(" script: ") {
        Some((text, place)) if place.contains(", on @") => text,
        // Part of the name of a key.
        _ => text,
    };
    if let Some(text) = text.strip_suffix("' command") {
        return Some(Denial::Command(text.rsplit_once('\'').map(|(_, command)| command)));
    }
    let is_about = |what: &str| {
        text.ends_with(what)
            || text.contains(&format!("one of the {what}s"))
            || text.contains(&format!("the {what} mentioned"))
    };
    Some(match text {
        _ if is_about("key") => Denial::Key,
        _ if is_about("channel") => Denial::Channel,
        _ => Denial::Command(None),
    })
}

/// As the end of a sentence that begins with the server.
impl fmt::Display for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(Some(command)) => {
                write!(f, "does not let the user run `{command}`; grant the user `+{command}`")
            }
            Self::Command(None) => f.write_str(
                "does not let the user run a command of the lock scripts; `lockctl doctor` names it",
            ),
            Self::Key => f.write_str(
                "does not give the user access to a key of this lock; grant the user the pattern of its keys",
            ),
            Self::Channel => f.write_str(
                "does not give the user access to a channel; grant the user its pattern, as `&*` does",
            ),
        }?;
        f.write_str(" (docs/operations.md, \"The user's rights\")")
    }
}

/// Classifies an error reply of the server at that address.
pub(crate) fn server_error(error: RedisError, address: impl fmt::Display) -> StoreError {
    let (kind, message) = about_names(&error).unwrap_or_else(|| {
        let (kind, what) = about_server(&error);
        (kind, format!("the server at {address} {what}"))
    });
    StoreError::new(kind, message).with_source(Cause(error))
}

/// What an error reply means for the caller.
pub(crate) fn kind_of(error: &RedisError) -> StoreErrorKind {
    about_names(error).map_or_else(|| about_server(error).0, |(kind, _)| kind)
}

/// What is wrong with the names of the lock, or with what is in its keys: the same at every server.
fn about_names(error: &RedisError) -> Option<(StoreErrorKind, String)> {
    use StoreErrorKind::{Config, OutcomeUnknown, WrongType};

    let detail = error.detail().unwrap_or_default();
    let (kind, message) = match error.code() {
        Some("WRONGTYPE") => (WrongType, script_message(detail)),
        Some("CROSSSLOT") => (
            Config,
            "the names of one lock are in different slots of the cluster; give them a common hash \
             tag, as in {order:7}:a and {order:7}:b",
        ),
        // In a cluster, some keys of a name may have moved to another node already. The script stopped there,
        // after a part of its changes.
        _ if detail.contains("non local key") && denial(error).is_none() => (
            OutcomeUnknown,
            "the lock is being moved to another node; the command may have run in part",
        ),
        _ => return None,
    };
    Some((kind, message.to_owned()))
}

/// What is wrong with the server, or what it denies, as the end of a sentence that begins with it.
fn about_server(error: &RedisError) -> (StoreErrorKind, Cow<'static, str>) {
    use StoreErrorKind::{Config, Denied, NotReady, OutOfMemory, Protocol};

    if let Some(denial) = denial(error) {
        return (Denied, denial.to_string().into());
    }
    let detail = error.detail().unwrap_or_default();
    let (kind, what) = match error.code().unwrap_or_default() {
        code @ ("BUSY" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "TRYAGAIN" | "CLUSTERDOWN"
        | "MISCONF" | "READONLY") => {
            return (NotReady, format!("cannot serve locks now ({code})").into());
        }
        "NOSCRIPT" => (
            NotReady,
            "does not know scripts that it was just sent; a proxy before it must not share commands out to several servers",
        ),
        "OOM" => (
            OutOfMemory,
            "is out of memory and grants no locks; raise its `maxmemory`, or delete other data",
        ),
        "NOAUTH" => (Denied, "wants a password; write redis://:password@host"),
        "WRONGPASS" => (Denied, WRONG_PASSWORD),
        "MOVED" | "ASK" => (
            Config,
            "is a node of a cluster; connect to it with `connect_cluster`, or as lock.cluster",
        ),
        "ERR" if detail.contains("max number of clients") => (NotReady, "has too many connections"),
        "ERR" if detail.contains(NO_DATABASE) => {
            (Config, "has fewer databases; write a lower number behind the address")
        }
        _ => (Protocol, "answered with an error that this version does not know"),
    };
    (kind, what.into())
}

/// The message of a WRONGTYPE: the scripts write one of their own, because the server's text does not help.
fn script_message(detail: &str) -> &str {
    match detail.split_once(" script: ").map_or(detail, |(text, _)| text) {
        text if text.starts_with("the ") => text,
        _ => "the key holds a value that is no lock",
    }
}

/// True if the user may not read that key.
pub(crate) fn is_forbidden_key(error: &StoreError) -> bool {
    cause(error).is_some_and(|reply| denial(reply) == Some(Denial::Key))
}

/// True if the keys of a request are in different slots, so that nothing ran.
pub(crate) fn is_crossslot(error: &StoreError) -> bool {
    cause(error).is_some_and(|reply| reply.code() == Some("CROSSSLOT"))
}

/// Classifies the error of an attempt to connect.
pub(crate) fn connect_error(error: RedisError, address: impl fmt::Display) -> StoreError {
    use StoreErrorKind::{Config, Denied, Unavailable};

    #[cfg(feature = "tls-rustls")]
    if let Some((kind, message)) = super::tls::refusal(&error) {
        return StoreError::new(kind, message).with_source(Cause(error));
    }
    let (kind, what) = match error.kind() {
        _ if error.is_io_error() && error.is_timeout() => (
            Unavailable,
            "did not answer in time while connecting; check the address, and whether the server wants TLS \
             (rediss://) or not (redis://)",
        ),
        _ if error.is_io_error() && is_closed(&error) => (
            Unavailable,
            "closed the connection at once; check whether it has too many connections, or wants TLS \
             (rediss://) or not (redis://)",
        ),
        _ if error.is_io_error() => {
            (Unavailable, "cannot be reached; check the address and that it runs")
        }
        redis::ErrorKind::Parse => (Config, "is not Redis; check host and port of the address"),
        redis::ErrorKind::InvalidClientConfig => (Config, "cannot be used with this address"),
        redis::ErrorKind::AuthenticationFailed => (Denied, WRONG_PASSWORD),
        _ => return server_error(error, address),
    };
    StoreError::new(kind, format!("the server at {address} {what}")).with_source(Cause(error))
}

/// The same, for a server whose whole address is known.
pub(crate) fn connect_error_of(error: RedisError, info: &ConnectionInfo) -> StoreError {
    let detail = error.detail().unwrap_or_default();
    // The client library takes the code of this reply away.
    if detail.contains("run the 'select' command") {
        let denial = Denial::Command(Some("select"));
        let message = format!("the server at {} {denial}", info.addr());
        return StoreError::new(StoreErrorKind::Denied, message).with_source(Cause(error));
    }
    if !detail.contains(NO_DATABASE) {
        return connect_error(error, info.addr());
    }
    let message = format!(
        "the server at {} has no database {}; write a lower number behind the address, or raise the server's \
         setting `databases`",
        info.addr(),
        info.redis_settings().db()
    );
    config_error(message).with_source(Cause(error))
}

/// True if no server accepted a connection. One that stays silent may have: the attempt then waits in its queue.
pub(crate) fn was_unreached(error: &StoreError) -> bool {
    let was_reached = |cause: &RedisError| is_closed(cause) || cause.is_timeout();
    error.kind() == StoreErrorKind::Unavailable && !cause(error).is_some_and(was_reached)
}

/// True if the server accepted the connection and closed it at once.
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
            ("NOSCRIPT", "No matching script. Please use EVAL.", NotReady),
            ("OOM", "command not allowed when used memory > 'maxmemory'", OutOfMemory),
            ("WRONGTYPE", "Operation against a key holding the wrong kind", WrongType),
            ("NOAUTH", "Authentication required", Denied),
            ("WRONGPASS", "invalid username-password pair", Denied),
            ("NOPERM", "this user has no permissions", Denied),
            ("ERR", denied, Denied),
            ("ERR", "ACL failure in script: User x has no permissions to run 'get'", Denied),
            (
                "ERR",
                "ACL failure in script: User x has no permissions to access the 'a non local key' key",
                Denied,
            ),
            ("CROSSSLOT", "Keys in request don't hash to the same slot", Config),
            ("MOVED", "3999 127.0.0.1:7001", Config),
            ("ERR", "Script attempted to access a non local key in a cluster node", OutcomeUnknown),
            ("ERR", "something new", Protocol),
        ] {
            let error = redis::make_extension_error(code.to_owned(), Some(detail.to_owned()));
            assert_eq!(kind_of(&error), kind, "{code} {detail}");
            let error = server_error(error, "127.0.0.1:6379");
            assert_eq!(error.kind(), kind, "{code} {detail}");
            assert_eq!(error.kind().is_transient(), matches!(kind, NotReady | OutcomeUnknown));
        }
    }

    /// In the words of Redis 7.0 and of later versions, outside and inside of scripts.
    #[test]
    fn denials_are_told_apart() {
        let named = |command| Some(Denial::Command(Some(command)));
        let place = "script: 4871ab, on @user_script:2.";
        for (code, detail, denied) in [
            ("NOPERM", "this user has no permissions to run the 'hkeys' command", named("hkeys")),
            (
                "NOPERM",
                "User x has no permissions to run the 'script|load' command",
                named("script|load"),
            ),
            (
                "ERR",
                "ACL failure in script: User x has no permissions to run the 'get' command",
                named("get"),
            ),
            (
                "ERR",
                "The user executing the script can't run this command or subcommand",
                Some(Denial::Command(None)),
            ),
            (
                "NOPERM",
                "this user has no permissions to access one of the keys used as arguments",
                Some(Denial::Key),
            ),
            ("NOPERM", "No permissions to access a key", Some(Denial::Key)),
            (
                "ERR",
                "ACL failure in script: User x has no permissions to access the 'channel' key",
                Some(Denial::Key),
            ),
            (
                "ERR",
                "The user executing the script can't access at least one of the keys mentioned in the command arguments",
                Some(Denial::Key),
            ),
            (
                "NOPERM",
                "this user has no permissions to access one of the channels used as arguments",
                Some(Denial::Channel),
            ),
            ("NOPERM", "No permissions to access a channel", Some(Denial::Channel)),
            (
                "ERR",
                "The user executing the script can't publish to the channel mentioned in the command",
                Some(Denial::Channel),
            ),
            ("NOPERM", "something new", Some(Denial::Command(None))),
            ("ERR", "something new", None),
            ("WRONGTYPE", "this user has no permissions to run the 'get' command", None),
        ] {
            for detail in [detail.to_owned(), format!("{detail} {place}")] {
                let error = redis::make_extension_error(code.to_owned(), Some(detail.clone()));
                assert_eq!(denial(&error), denied, "{code} {detail}");
            }
        }
    }
}
