//! What large and wild configurations cost.

use std::fmt::Write;
use std::time::Duration;

use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;
use lock_tower::LockLayer;
use proptest::prelude::*;

/// Policies on a chain of bases; ten times as many routes.
fn large(policies: usize) -> String {
    let mut text = "[lock.base.b0]\nwait = '1s'\n".to_owned();
    for n in 1..10 {
        writeln!(text, "[lock.base.b{n}]\nbase = 'b{}'", n - 1).unwrap();
    }
    for n in 0..policies {
        writeln!(text, "[lock.policies.p{n:03}]\nbase = 'b9'\nmax_hold = '5m'").unwrap();
    }
    for n in 0..10 * policies {
        let policy = n % 20;
        let route =
            format!("path = '/a{n}/{{id}}'\npolicy = 'p{policy:03}'\nkey = 'a{n}:{{path.id}}'");
        writeln!(text, "[[lock.routes]]\nmethods = ['POST', 'PUT']\n{route}").unwrap();
    }
    text
}

/// The processor time of this thread that `work` takes at best, whatever else the machine does.
fn cost<T>(mut work: impl FnMut() -> T) -> Duration {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let once = |_| {
        let started = now();
        drop(work());
        let (start, end) = (Duration::try_from(started), Duration::try_from(now()));
        end.unwrap() - start.unwrap()
    };
    (0..5).map(once).min().unwrap()
}

#[test]
fn a_large_file_loads_quickly() {
    let json = |policies| {
        let text = large(policies);
        let parsed = toml::from_str::<toml::Value>(&text).unwrap();
        (text, serde_json::to_string(&parsed).unwrap())
    };
    let read = |json: &str| {
        LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(json)).unwrap()
    };
    let (text, parsed) = json(100);
    let plain = cost(|| serde_json::from_str::<serde_json::Value>(&parsed).unwrap());
    let (_, fifth) = json(20);
    let fifth = cost(|| read(&fifth));
    let (config, took) = (read(&parsed), cost(|| read(&parsed)));
    assert_eq!(config.policies().count(), 100);
    let from_toml = cost(|| LockConfig::from_toml(&text).unwrap());
    let client = LockClient::builder().config(config).in_memory().unwrap();
    let layer = cost(|| LockLayer::routes(&client).unwrap());
    println!("100 policies and 1000 routes: {took:?}; from TOML {from_toml:?}");
    println!("and a layer of them: {layer:?}");
    println!("as plain JSON: {plain:?}; a fifth of the file: {fifth:?}");
    assert!(took < plain * 20, "{took:?}, and {plain:?} as plain JSON");
    assert!(took < fifth * 10, "{took:?}, and {fifth:?} for a fifth of it");
}

/// Text that is nearly a configuration.
fn nearly() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("lock".to_owned()),
        Just("policies".to_owned()),
        Just("base".to_owned()),
        Just("defaults".to_owned()),
        Just("routes".to_owned()),
        Just("http".to_owned()),
        Just("replicas".to_owned()),
        "[a-z*.]{0,6}",
    ];
    let field = prop_oneof![
        Just("base"),
        Just("key"),
        Just("kind"),
        Just("wait"),
        Just("lease"),
        Just("at_least"),
        Just("max_hold"),
        Just("replicas"),
        Just("enforce"),
        Just("url"),
        Just("quorum"),
        Just("restart_guard"),
        Just("path"),
        Just("policy"),
        Just("methods"),
    ];
    let value = prop_oneof![
        "'[a-z0-9 {}*()/:\u{e9}-]{0,12}'",
        "'(watchdog )?[0-9]{1,25}(ns|ms|s|m|h|days|years)'",
        "-?[0-9]{1,18}",
        "\\[('[a-zA-Z/]{0,5}'(, )?){0,3}\\]",
        Just("{ acks = 1, timeout = '1s' }".to_owned()),
    ];
    let line = prop_oneof![
        prop::collection::vec(word.clone(), 1..4).prop_map(|path| format!("[{}]", path.join("."))),
        Just("[[lock.routes]]".to_owned()),
        word.prop_map(|name| format!("[lock.policies.'{name}']")),
        (field, value).prop_map(|(field, value)| format!("{field} = {value}")),
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever is read, it is accepted or refused.
    #[test]
    fn nothing_panics(text in nearly(), value in "\\PC{0,24}", name in "\\PC{0,16}") {
        drop(LockConfig::from_toml(&text).map(|config| lock_tower::http::check(&config)));
        let quoted = serde_json::to_string(&value).unwrap();
        for field in ["wait", "lease", "kind", "key", "base", "at_least", "max_hold"] {
            let text = format!(r#"{{ "lock": {{ "policies": {{ "p": {{ "{field}": {quoted} }} }} }} }}"#);
            drop(LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(&text)));
        }
        let quoted = serde_json::to_string(&name).unwrap();
        let text = format!(r#"{{ "lock": {{ "policies": {{ {quoted}: {{}} }} }} }}"#);
        let read = LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(&text));
        if let Ok(config) = read {
            prop_assert!(config.policy(&name).is_ok());
        }
    }
}
