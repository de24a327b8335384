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
        "[lock.policies.p]\nkey = '{{cart}}:{path.id}'",
        // Keys that only a layer can check, and a route whose key is in the code of the layer.
        "[lock.policies.p]\nkey = '{ext.user}:{path.id}:{header.X-Tenant}:{query.a b}:{method}:{route}'",
        "[[lock.routes]]\npath = '/a/{id}'\npolicy = 'p'\n[lock.policies.p]",
        "[[lock.routes]]\npath = '/a/{nr}'\npolicy = 'p'\nkey = 'a:{path.nr}'\n[lock.policies.p]\nkey = 'a:{path.id}'",
        "[lock]\nurl = 'redis://user:p%23%2F@[::1]:6380/2?protocol=resp3'",
        "[lock.defaults]\nlease = 'watchdog 2m'\n[lock.policies.p]\nreplicas = { at_least = 1, timeout = '1m' }",
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

/// A `main` that returns the error prints its debug form.
#[test]
fn the_debug_form_is_the_sentences() {
    let error = read("[lock.policies.p]\nwait = '0s'\nmax_hold = '0s'").unwrap_err();
    let sentences = "lock.policies.p.wait: \"0s\" never waits; write \"none\" to say so\n\
                     lock.policies.p.max_hold: \"0s\" says nothing; omit it, or set a positive duration";
    assert_eq!(
        (error.to_string(), format!("{error:?}")),
        (sentences.to_owned(), sentences.to_owned())
    );
}

/// A task that comes second does not wait for the first of its client.
#[tokio::test]
async fn no_waiters_means_that_no_task_queues() {
    let config = read("[lock.policies.p]\nmax_waiters = 0").unwrap();
    let client = lock_runtime::LockClient::builder().config(config).in_memory().unwrap();
    let held = client.policy_lock("p", ["a"]).lock().await.unwrap();
    let error = client.policy_lock("p", ["a"]).lock().await.unwrap_err();
    assert!(matches!(error, lock_runtime::LockError::Busy { .. }), "{error}");
    held.release().await.unwrap();
    client.policy_lock("p", ["a"]).lock().await.unwrap().release().await.unwrap();
}
