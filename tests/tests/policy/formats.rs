//! One configuration in TOML, JSON and YAML, by serde and by figment, with variables of the environment.

use super::*;
use figment::providers::{Env, Format, Json, Serialized, Toml};
use figment::{Figment, Jail};
use serde::{Deserialize, Serialize};

const TOML: &str = r#"
    [lock]
    url = "redis://127.0.0.1:6379"
    namespace = "shop"
    store_patience = "20s"
    [lock.defaults]
    wait = "3s"
    lease = "watchdog 30s"
    [lock.base.strict]
    kind = "fair"
    replicas = { acks = 1, timeout = "200ms" }
    [lock.policies.checkout]
    base = "strict"
    key = "cart:{header.x-cart}"
    max_hold = "5m"
    max_waiters = 100
    enforce = false
    http = { busy = 409, hold = "auto", methods = ["POST"] }
    [lock.policies.tenant]
    on_lost = "finish"
    [[lock.routes]]
    methods = ["POST"]
    path = "/orders/{id}/pay"
    policy = "checkout"
    hold = "body"
    [server]
    port = 80
    "#;

fn value(toml: &str) -> serde_json::Value {
    toml::from_str(toml).unwrap()
}

/// The same in YAML.
fn yaml(toml: &str) -> String {
    serde_norway::to_string(&value(toml)).unwrap()
}

/// A program's own configuration.
#[derive(Debug, Deserialize)]
struct App {
    lock: LockConfig,
}

/// What each reader makes of it: TOML, JSON and YAML as a field of a program's own configuration and by themselves, by figment.
fn by_every_reader(toml: &str) -> Vec<Result<LockConfig, String>> {
    let (json, yaml) = (value(toml).to_string(), yaml(toml));
    let app = |read: Result<App, String>| read.map(|app| app.lock);
    let told = |error: &dyn std::error::Error| error.to_string();
    vec![
        app(toml::from_str(toml).map_err(|error| told(&error))),
        app(serde_json::from_str(&json).map_err(|error| told(&error))),
        app(serde_json::from_value(value(toml)).map_err(|error| told(&error))),
        app(serde_norway::from_str(&yaml).map_err(|error| told(&error))),
        app(Figment::from(Toml::string(toml)).extract().map_err(|error| told(&error))),
        app(Figment::from(Json::string(&json)).extract().map_err(|error| told(&error))),
        LockConfig::from_deserializer(toml::Deserializer::parse(toml).unwrap())
            .map_err(|error| told(&error)),
        LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(&json))
            .map_err(|error| told(&error)),
        LockConfig::from_deserializer(serde_norway::Deserializer::from_str(&yaml))
            .map_err(|error| told(&error)),
    ]
}

/// An error has the path, the value and what was expected.
#[test]
fn every_format_says_the_same() {
    let toml = read(TOML).unwrap();
    assert_eq!((toml.policies().count(), toml.namespace()), (2, Some("shop")));
    for other in by_every_reader(TOML) {
        assert_eq!(other.as_ref(), Ok(&toml));
    }
    for wrong in by_every_reader(&TOML.replace("\"5m\"", "5")) {
        let error = wrong.unwrap_err();
        let says = ["lock.policies.checkout.max_hold: ", "5", "a duration with its unit"];
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
    }
}

/// What is written is read again as the same, in other formats too; and it says nothing that was left out.
#[test]
fn what_is_written_is_read_again() {
    #[derive(Serialize)]
    struct Written<'a> {
        lock: &'a LockConfig,
    }
    let config = read(TOML).unwrap();
    let written = Written { lock: &config };
    assert_eq!(serde_json::to_value(&written).unwrap()["lock"], value(TOML)["lock"]);
    let yaml = serde_norway::to_string(&written).unwrap();
    let read = LockConfig::from_deserializer(serde_norway::Deserializer::from_str(&yaml));
    assert_eq!(read, Ok(config.clone()));
    assert_eq!(LockConfig::from_toml(&toml::to_string(&written).unwrap()), Ok(config.clone()));
    let figment = Figment::from(Serialized::default("lock", &config));
    assert_eq!(LockConfig::from_figment(&figment), Ok(config.clone()));
    assert_eq!(serde_json::to_string(&LockConfig::default()).unwrap(), "{}");
}

/// The crates `figment` and `config` read it by themselves, as a field of a program's own configuration.
#[test]
fn other_loaders_read_it_as_a_field() {
    Jail::expect_with(|jail| {
        jail.create_file("app.toml", TOML)?;
        jail.set_env("MYAPP_LOCK__POLICIES__CHECKOUT__WAIT", "5s");
        let figment =
            Figment::new().merge(Toml::file("app.toml")).merge(Env::prefixed("MYAPP_").split("__"));
        let by_figment: App = figment.extract()?;
        let by_config: App = config::Config::builder()
            .add_source(config::File::with_name("app.toml"))
            .add_source(
                config::Environment::with_prefix("MYAPP").prefix_separator("_").separator("__"),
            )
            .build()
            .and_then(config::Config::try_deserialize)
            .map_err(|error| error.to_string())?;
        assert_eq!(by_figment.lock, by_config.lock);
        let wait = by_config.lock.policy("checkout").map(|policy| policy.wait);
        assert_eq!(wait.ok(), Some(Some(Wait::UpTo(secs(5)))));
        Ok(())
    });
}

/// A policy is a target of serde by itself.
#[test]
fn a_policy_is_read_and_written_alone() {
    let policy: Policy = toml::from_str("kind = 'semaphore(3)'\nlease = 'watchdog 45s'").unwrap();
    assert_eq!(policy.kind.map(|kind| kind.to_string()).as_deref(), Some("semaphore(3)"));
    assert!(!matches!(policy.kind, Some(LockKind::Mutex)));
    let json = serde_json::to_value(&policy).unwrap();
    assert_eq!(json, serde_json::json!({ "kind": "semaphore(3)", "lease": "watchdog 45s" }));
    assert_eq!(serde_json::from_value::<Policy>(json).unwrap(), policy);
    assert!(toml::from_str::<Policy>("wiat = '3s'").is_err());
}

type Pairs = &'static [(&'static str, &'static str)];

/// Files, variables of the environment, and what the error of figment says.
#[rustfmt::skip]
const WRONG: &[(Pairs, Pairs, &str)] = &[
    // Of several files, the one with the wrong value.
    (&[("app.toml", TOML), ("local.toml", "[lock.defaults]\nwait = 3")], &[], "local.toml: lock.defaults.wait: "),
    (&[("app.toml", "[server]\nport = 80")], &[], NO_TABLE),
    (&[], &[], NO_TABLE),
    (&[("app.toml", "[lock.defaults]\nwait = 8s # not for long\n")], &[], UNQUOTED),
    // One underscore between a table and a name in it is the usual mistake with variables.
    (&[("app.toml", "[lock]")], &[("MYAPP_LOCK__DEFAULTS_WAIT", "250ms")], "did you mean `defaults.wait`?"),
    (&[("app.toml", "[lock]")], &[("MYAPP_LOCK_DEFAULTS__WAIT", "250ms")], "write two underscores for each step down, as in …LOCK__DEFAULTS"),
    (&[("app.toml", "[lock]")], &[("MYAPP_LOCK_URL", "250ms")], "lock_url: is no table of locks; write two underscores"),
    (&[("app.toml", "[lock]")], &[("MYAPP_LOCK_BASE__STRICT__WAIT", "250ms")], "as in …LOCK__BASE"),
    (&[("app.toml", "[lock]")], &[("MYAPP_LOCK_ROUTES", "250ms"), ("MYAPP_LOCK_FILE", "of another program")], "as in …LOCK__ROUTES"),
];

const NO_TABLE: &str =
    "there is no table `lock`; put the settings of locks there, such as `lock.url`";
const UNQUOTED: &str = "; write a duration in quotes, as in wait = \"8s\" (line 2, column ";

#[test]
fn a_wrong_file_or_variable_is_named_by_figment() {
    for (files, variables, says) in WRONG {
        Jail::expect_with(|jail| {
            let mut figment = Figment::new();
            for (name, text) in *files {
                jail.create_file(name, text)?;
                figment = figment.merge(Toml::file(name));
            }
            variables.iter().for_each(|(name, value)| jail.set_env(name, value));
            let error = LockConfig::from_figment(&with_environment(figment)).unwrap_err();
            let source = match variables {
                [] if *says == NO_TABLE => "",
                [] => files.last().map_or("", |(name, _)| *name),
                _ => "environment variable",
            };
            let error = error.to_string();
            assert!(error.contains(says) && error.contains(source), "{says}: {error}");
            Ok(())
        });
    }
}

/// A TOML file, and all that its error says.
#[rustfmt::skip]
const WRONG_FILES: &[(&str, &str, &[&str])] = &[
    ("local.toml", "[lock.defaults]\nwait = 3", &["local.toml: lock.defaults.wait: ", "(line 2, column 8)"]),
    ("app.toml", "[lock.defaults]\nwait = 8s # not for long\n", &["app.toml: ", UNQUOTED]),
    ("open.toml", "[lock\n", &["open.toml: the TOML cannot be parsed: "]),
    ("app.toml", "[server]\nport = 80", &[NO_TABLE]),
    ("two.toml", "[lock.policies.p]\nwait = '0s'\n[lock.policies.q]\nmax_hold = '0s'", &[
        "two.toml: lock.policies.p.wait: a wait of zero never waits; use \"none\" to say so\n",
        "two.toml: lock.policies.q.max_hold: max_hold is zero; omit it, or set a positive duration",
    ]),
];

#[test]
fn a_wrong_file_is_named() {
    for (name, text, says) in WRONG_FILES {
        Jail::expect_with(|jail| {
            jail.create_file(name, text)?;
            let error = LockConfig::from_toml_file(name).unwrap_err().to_string();
            assert!(says.iter().all(|part| error.contains(part)), "{says:?}: {error}");
            Ok(())
        });
    }
}

/// Figment reads a missing file as empty: without an error, every lock of its routes would be off.
#[test]
fn a_file_of_a_figment_that_is_missing_is_an_error() {
    Jail::expect_with(|jail| {
        jail.set_env("MYAPP_LOCK__URL", "memory:");
        let toml = || with_environment(Toml::file("app.toml"));
        for (figment, name) in
            [(toml(), "TOML"), (with_environment(Json::file("app.json")), "JSON")]
        {
            let error = LockConfig::from_figment(&figment).unwrap_err().to_string();
            assert!(error.starts_with(&format!("a {name} file does not exist")), "{error}");
        }
        jail.create_file("app.toml", "[server]\nport = 80")?;
        assert!(LockConfig::from_figment(&toml()).is_ok());
        assert!(LockConfig::from_figment(&with_environment(Toml::string(""))).is_ok());
        Ok(())
    });
}

/// A misspelt name in a variable makes a policy that no code uses, and the value has no effect.
#[test]
fn a_policy_that_is_misspelt_in_a_variable_is_told_of() {
    Jail::expect_with(|jail| {
        let log = Log::start_at(tracing::Level::WARN);
        jail.create_file("app.toml", TOML)?;
        let read = || LockConfig::from_figment(&with_environment(Toml::file("app.toml")));
        for (variable, told) in [
            ("POLICIES__CHECKOUT__WAIT", None),
            // Far from all names: it may be a policy that only variables set.
            ("POLICIES__REFUND__WAIT", Some(("policies.refund", ""))),
            ("POLICIES__CHEKOUT__WAIT", Some(("policies.chekout", "; did you mean \"checkout\"?"))),
            ("BASE__STRICTT__WAIT", Some(("base.strictt", "; did you mean \"strict\"?"))),
        ] {
            jail.set_env(format!("MYAPP_LOCK__{variable}"), "5s");
            assert!(read().is_ok());
            let text = log.text();
            let Some((path, near)) = told else {
                assert_eq!(text, "");
                continue;
            };
            let told = format!(
                "all values of lock.{path} come from environment variables; if the name is misspelt, \
                 nothing uses it{near}"
            );
            assert!(text.contains(&told), "{text}");
        }
        // A policy of the file, of which a variable overrides the only value.
        jail.create_file("one.toml", "[lock.policies]\npay.wait = '1s'\npays.wait = '2s'")?;
        jail.set_env("MYAPP_LOCK__POLICIES__PAY__WAIT", "5s");
        let one = LockConfig::from_figment(&with_environment(Toml::file("one.toml"))).unwrap();
        let wait = one.policy("pay").map(|policy| policy.wait);
        assert_eq!(wait.ok(), Some(Some(Wait::UpTo(secs(5)))));
        // Where variables say all, no name is known to be right.
        assert!(LockConfig::from_figment(&with_environment(Toml::string(""))).is_ok());
        Ok(())
    });
}

/// What the module's documentation shows.
fn with_environment(file: impl figment::Provider) -> Figment {
    Figment::from(file).merge(Env::prefixed("MYAPP_").split("__"))
}

#[test]
fn variables_of_the_environment_come_over_the_file() {
    Jail::expect_with(|jail| {
        jail.create_file("app.toml", TOML)?;
        jail.set_env("MYAPP_LOCK__NAMESPACE", "shop-7");
        jail.set_env("MYAPP_LOCK__DEFAULTS__WAIT", "250ms");
        jail.set_env("MYAPP_LOCK__POLICIES__CHECKOUT__MAX_HOLD", "1m");
        jail.set_env("MYAPP_LOCK__POLICIES__CHECKOUT__ENFORCE", "true");
        jail.set_env("MYAPP_LOCK__POLICIES__CHECKOUT__HTTP__METHODS", "[PUT, POST]");
        jail.set_env("MYAPP_LOCK__POLICIES__REFUND__BASE", "strict");
        let config: LockConfig = with_environment(Toml::file("app.toml")).extract_inner("lock")?;
        let changed = TOML
            .replace("\"shop\"", "\"shop-7\"")
            .replace("wait = \"3s\"", "wait = \"250ms\"")
            .replace("\"5m\"", "\"1m\"")
            .replace("enforce = false", "enforce = true")
            .replace("methods = [\"POST\"] }", "methods = [\"PUT\", \"POST\"] }");
        let changed = format!("{changed}\n[lock.policies.refund]\nbase = 'strict'");
        assert_eq!(config, toml::from_str::<App>(&changed).unwrap().lock);

        jail.set_env("MYAPP_LOCK__POLICIES__CHECKOUT__MAX_HOLD", "60");
        let error = with_environment(Toml::file("app.toml")).extract::<App>().unwrap_err();
        let error = error.to_string();
        assert!(error.contains("lock.policies.checkout.max_hold: "), "{error}");
        Ok(())
    });
}

/// TOML itself refuses it.
#[test]
fn a_name_that_is_given_twice_is_refused() {
    let text = r#"{ "lock": { "policies": { "p": { "wait": "1s" }, "p": { "wait": "2s" } } } }"#;
    let told = "lock.policies: p is given twice; take one out";
    let error = serde_json::from_str::<App>(text).unwrap_err().to_string();
    assert!(error.starts_with(told), "{error}");
    let error = LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(text));
    assert!(error.unwrap_err().to_string().starts_with(told));
    assert!(serde_norway::from_str::<App>(text).is_err());
}

/// A YAML table without entries is no table to YAML.
#[test]
fn an_empty_table_may_be_left_empty() {
    let text =
        "lock:\n  url: 'memory:'\n  defaults:\n  policies:\n    p:\n  base:\n  routes:\n  tls:\n";
    let config = serde_norway::from_str::<App>(text).unwrap().lock;
    assert_eq!(Ok(config), LockConfig::from_toml("[lock]\nurl='memory:'\n[lock.policies.p]"));
}
