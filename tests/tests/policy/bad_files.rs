//! What is wrong is refused when it is read, in one sentence with the path to it.

use super::read;
use lock_runtime::policy::LockFile;
use lock_tests::bad_config::{WRONG_TYPES, WRONG_WHOLES};

const UNKNOWN_IN_POLICY: &str = "expected one of `base`, `key`, `kind`, `wait`, `lease`, `on_lost`, \
                                 `on_release_lost`, `at_least`, `max_hold`, `max_waiters`, \
                                 `replicas`, `http`, `enforce`";

#[test]
fn wrong_types_are_named_by_path() {
    for (text, expected) in WRONG_TYPES {
        let message = read(text).unwrap_err().to_string();
        // TOML knows the place of some; the one-pass readers of other formats do not.
        let said = message.strip_prefix(expected).unwrap_or_else(|| panic!("{text}\n{message}"));
        assert!(said.is_empty() || said.starts_with(" (line "), "{text}\n{message}");
    }
}

#[test]
fn an_unknown_name_suggests_the_nearest() {
    let error = read("[lock.policies.checkout]\nwiat = '3s'").unwrap_err().to_string();
    assert!(error.starts_with("lock.policies.checkout.wiat: unknown field `wiat`, "), "{error}");
    assert!(error.contains(UNKNOWN_IN_POLICY), "{error}");
    assert!(error.ends_with("; did you mean `wait`? (line 2, column 1)"), "{error}");
    let error = read("[lock.policies.checkout]\nretries = 3").unwrap_err().to_string();
    assert!(error.contains(UNKNOWN_IN_POLICY) && !error.contains("did you mean"), "{error}");
}

#[test]
fn everything_wrong_with_the_whole_is_reported_at_once() {
    for (text, expected) in WRONG_WHOLES {
        let error = read(text).unwrap_err();
        let found: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(error.to_string(), expected.join("\n"));
        // As part of a program's own configuration it says the same.
        let error = toml::from_str::<LockFile>(text).unwrap_err().to_string();
        assert!(error.contains(expected[0]), "{error}");
    }
}

/// What looks wrong to this test's author, and is right.
#[test]
fn what_is_right_is_accepted() {
    for text in [
        "[lock]",
        "[lock]\nurl = 'memory:'\n[server]\nport = 80",
        "[lock.policies.p]\nkey = '{{cart}}:{path.id:raw}'",
        "[lock.defaults]\nlease = '10s'\n[lock.policies.p]\nlease = 'watchdog'\nmax_hold = '5m'",
        "[lock.policies.p]\nmax_waiters = 0\nenforce = 0",
        "[lock.policies.p]\nwait = '1m30s'\nlease = 'watchdog  1m 30s'\nkind = 'semaphore( 3 )'",
        "[lock.policies.'tenant-*']\n[lock.policies.'tenant-a-*']\n[lock.policies.'tenant-a-1']",
        "[[lock.routes]]\npath = '/files/{*rest}'\npolicy = 't-1'\n[lock.policies.'t-*']",
        "[[lock.routes]]\npath = '/a'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'post'\n[[lock.routes]]\npath = '/{a}'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'rest'\n[lock.policies]\nget = { http = { methods = ['GET'] } }\npost = { http = { methods = ['POST'] } }\nrest = {}",
    ] {
        read(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    }
}

/// Addresses have passwords in them.
#[test]
fn no_message_repeats_an_address() {
    for text in [
        "lock = 'redis://:secret@one'",
        "[lock]\nurl = 'redis//:secret@one'",
        "[lock]\nurl = 'redis://:secret@one'\ncluster = ['redis://:secret@one']",
        "[lock]\nurl = 'redis://:secret@one'\nnamespace = ''",
        "[lock]\nquorum = 'redis://:secret@one'",
        "[lock]\nsentinel = 'redis://:secret@one'",
        "[lock]\nsentinel = { master = 'redis://:secret@one', node = ['redis://:secret@one'] }",
        "[lock]\nquorum = ['redis://:secret@one', 'redis://:secret@one', 3]",
    ] {
        let error = read(text).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    for text in [
        "[lock]\nquorum = ['redis://:secret@one']\nrestart_guard = 'none'",
        "[lock]\nsentinel = { master = 'redis://:secret@one', nodes = ['redis://:secret@one'] }",
    ] {
        let config = read(text).unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
