//! What is wrong is refused when it is read, in one sentence with the path to it.

use lock_tests::bad_config::{WRONG_FOR_LAYERS, WRONG_TYPES, WRONG_WHOLES};
use serde::Deserialize;

use super::*;

const UNKNOWN_IN_POLICY: &str = "expected one of `base`, `key`, `kind`, `wait`, `lease`, `max_hold`, \
                                 `at_least`, `on_lost`, `on_release_lost`, `release_timeout`, \
                                 `max_waiters`, `replicas`, `http`, `enforce`";

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
        let error = toml::from_str::<App>(text).unwrap_err().to_string();
        assert!(error.contains(expected[0]), "{error}");
    }
}

/// A program's own configuration.
#[derive(Debug, Deserialize)]
struct App {
    #[expect(dead_code, reason = "it is only read")]
    lock: LockConfig,
}

/// What only layers read is refused by the check for them, by each layer that follows it, and when a client with such a
/// layer reloads.
#[test]
fn what_is_wrong_for_layers_is_reported_at_once() {
    let client = LockClient::builder().config(LockConfig::default()).in_memory().unwrap();
    let layer = LockLayer::http().client(client.clone()).routes().build().unwrap();
    for (text, expected) in WRONG_FOR_LAYERS {
        let config = read(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let error = lock_tower::http::check(&config).unwrap_err();
        let found: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{text}");
        let refused = client.reload(config.clone()).unwrap_err().to_string();
        assert_eq!(refused, expected.join("\n"));
        let other = LockClient::builder().config(config).in_memory().unwrap();
        let refused = LockLayer::routes(&other).unwrap_err().to_string();
        assert_eq!(refused, format!("invalid lock options: {}", expected.join("\n")));
    }
    drop(layer);
}

/// A client without a configuration may have layers already.
#[test]
fn the_first_configuration_is_checked_with_the_layers() {
    let client = LockClient::in_memory();
    let layer = LockLayer::http().client(client.clone()).key("a").max_hold(secs(300)).build();
    let layer = layer.unwrap();
    let error = client.reload(read("[lock.defaults]\nlease = '10m'").unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("max_hold 5m is shorter than the fixed lease of 10m"),
        "{error}"
    );
    assert!(client.config().is_none());
    drop(layer);
}

/// A policy of the program is checked as one of a file.
#[test]
fn a_semaphore_without_permits_is_refused() {
    let mut policy = Policy::default();
    policy.kind = Some(LockKind::Semaphore(0));
    let mut config = LockConfig::default();
    config.insert("p", policy);
    assert_eq!(
        config.check().unwrap_err().to_string(),
        "lock.policies.p.kind: semaphore(0) admits no holder; give at least one permit"
    );
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
        "[lock.defaults]\nlease = 'watchdog 2m'\n[lock.policies.p]\nreplicas = { acks = 1, timeout = '1m' }",
        "[lock.defaults]\nlease = '10s'\n[lock.policies.p]\nlease = 'watchdog'\nmax_hold = '5m'",
        "[lock.policies.p]\nmax_waiters = 0\nenforce = false",
        "[lock.policies.p]\nwait = '1m30s'\nlease = 'watchdog  1m 30s'\nkind = 'semaphore( 3 )'",
        "[lock]\nurl = 'rediss://a'\ntls = { ca = 'ca.pem', certificate = 'c.pem', key = 'c.key' }\nstore_patience = '20s'\ncommand_timeout = '2s'",
        "[[lock.routes]]\npath = '/files/{*rest}'\npolicy = 't-1'\n[lock.policies.t-1]",
        "[[lock.routes]]\npath = '/a'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'post'\n[[lock.routes]]\npath = '/{a}'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'rest'\n[lock.policies]\nget = { http = { methods = ['GET'] } }\npost = { http = { methods = ['POST'] } }\nrest = {}",
    ] {
        let config = read(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        lock_tower::http::check(&config).unwrap_or_else(|error| panic!("{text}\n{error}"));
    }
}
