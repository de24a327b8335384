//! Configurations and addresses. Passwords are in both, and no error shows one.

use std::error::Error;
use std::fmt::Write;

use lock_runtime::policy::LockConfig;
use lock_runtime::{LockClient, fuzz};

use crate::input::{parts, text};

/// A password, which nothing else in the input contains.
const SECRET: &str = "s3cr3tPW";

/// An error in all its forms, with all its causes.
fn everything(error: &(dyn Error + 'static)) -> String {
    let mut all = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        // Writing to a string cannot fail.
        let _ = writeln!(all, "{error}\n{error:?}");
        next = error.source();
    }
    all
}

/// A configuration is refused with its problems, or has policies that can all be found, and is the same when it is
/// written and read again.
pub fn configuration(input: &[u8]) {
    let words: &[&str] = &[
        "[lock]\n",
        "[lock.defaults]\n",
        "[lock.policies.p]\n",
        "[lock.policies.\"t-1\"]\n",
        "[lock.base.b]\n",
        "[[lock.routes]]\n",
        "[lock.sentinel]\n",
        "url = \"memory:\"\n",
        "url = \"redis://:s3cr3tPW@h\"\n",
        "\"redis://:s3cr3tPW@h\"",
        "'redis://:s3cr3tPW@h'",
        "redis://:s3cr3tPW@h",
        "quorum = [",
        "cluster = [",
        "]\n",
        "nodes = [",
        "master = ",
        "namespace = ",
        "wait = ",
        "lease = ",
        "kind = ",
        "key = ",
        "base = ",
        "enforce = ",
        "http = { ",
        " }\n",
        "path = ",
        "policy = ",
        "methods = ",
        "replicas = { acks = ",
        ", timeout = ",
        "max_hold = ",
        "at_least = ",
        "max_waiters = ",
        "\"3s\"",
        "\"forever\"",
        "\"watchdog 30s\"",
        "\"semaphore(3)\"",
        "\"order:{id}\"",
        "\"b\"",
        "\"p\"",
        "\"/x/{id}\"",
        "\"POST\"",
        "10",
        "-1",
        "\n",
        " = ",
        "\"",
        "'",
        "\"\"\"",
        ".",
        "{",
        "}",
        "ü",
        "\\u00e9",
        "#",
        "tls = { ca = ",
        "store_patience = ",
        "token_ttl = ",
        "restart_guard = ",
        "\"none\"",
        "true",
        "1.5",
        "1979-05-27",
        "policies.p.",
        "\"order:{path.id}\"",
        "\"{header.x}:{path.other}\"",
    ];
    let toml = text(input, words);
    match LockConfig::from_toml(&toml) {
        Ok(config) => {
            for (name, _) in config.policies() {
                let policy = config.policy(name);
                assert!(policy.is_ok(), "{name:?}");
            }
            let written = serde_json::json!({ "lock": &config });
            assert_eq!(LockConfig::from_deserializer(&written).as_ref(), Ok(&config), "{written}");
            // Its layers read more of it.
            if let Err(error) = lock_tower::http::check(&config) {
                assert!(!error.problems().is_empty());
            }
            assert!(LockClient::builder().config(config.clone()).in_memory().is_ok());
            assert!(
                !format!("{config:?}").contains(SECRET)
                    || toml.replace("redis://:s3cr3tPW@h", "").contains("s3c")
            );
        }
        Err(error) => {
            assert!(!error.problems().is_empty());
            let shown = everything(&error);
            let only_in_addresses = toml.replace("redis://:s3cr3tPW@h", "");
            let is_secret = !only_in_addresses.contains("s3c");
            assert!(!is_secret || !shown.contains(SECRET), "{shown}");
        }
    }
}

/// No error shows the password of an address.
pub fn address(input: &[u8]) {
    let words: &[&str] = &[
        "redis://",
        "rediss://",
        "unix://",
        "redis+unix://",
        "valkey://",
        "@",
        ":",
        "/",
        "#",
        "?",
        "[::1]",
        "%40",
        "%",
        "host",
        "6379",
        ":99999",
        "user",
        "?protocol=resp3",
        "memory:",
        "ü",
        "\\",
        " ",
        "\0",
        "/2",
        "/x",
    ];
    let [before, after] = parts(input).map(|part| text(part, words));
    if before.contains(SECRET) || after.contains(SECRET) {
        return;
    }
    let url = format!("{before}:{SECRET}@{after}");
    let is_path = before.to_ascii_lowercase().contains("unix") && before.contains("://");
    let master = fuzz::sentinels(&url, &["redis://one"]);
    let node = fuzz::sentinels("locks", &[&url]);
    for error in [fuzz::server(&url).err(), master.err(), node.err()].into_iter().flatten() {
        let said = everything(&error);
        assert!(is_path || !said.contains(SECRET), "{url:?}: {said}");
    }
    // Without a password of its own, nothing to hide; it must only not panic.
    let plain = format!("{before}{after}");
    let _ = (fuzz::server(&plain).is_ok(), fuzz::sentinels(&plain, &[&after]).is_ok());
    check_configured(&plain, |said| said);
    // A configuration shows no path of a socket either.
    check_configured(&url, |said| {
        assert!(!said.contains(SECRET), "{url:?}: {said}");
        said
    });
}

/// A configuration accepts the address if `connect` does, apart from schemes in capitals or without `//`.
fn check_configured(url: &str, check: impl Fn(String) -> String) {
    let text = serde_json::json!({ "lock": { "url": url } });
    let refused = LockConfig::from_deserializer(text).err().map(|error| check(everything(&error)));
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let is_usual = !scheme.contains(|c: char| c.is_ascii_uppercase()) && rest.starts_with("//");
    if fuzz::server(url).is_ok() && is_usual {
        assert_eq!(refused, None, "{url:?}");
    }
}
