//! Addresses have passwords, hosts and users in them, wherever a configuration is wrong: no error shows any part of one.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write;

use figment::providers::{Env, Format, Json, Toml};
use figment::{Figment, Jail};
use proptest::prelude::*;

use super::*;

/// An error in all its forms, with all its causes.
fn everything(error: &(dyn Error + 'static)) -> String {
    let mut all = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        writeln!(all, "{error}\n{error:?}\n{error:#?}").unwrap();
        next = error.source();
    }
    all
}

/// What nothing but an address says, in pieces of three characters.
fn pieces(text: &str) -> HashSet<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.windows(3).map(|piece| piece.iter().collect()).collect()
}

/// How to write an address, which is in the errors, and the names of the schemes in this test.
const HELP: &str = "redis://user:password@host:port/database rediss://… unix:///path memory: valkey:// http:// redis//:";

/// Checks that this says no piece of the address.
fn says_nothing(what: &str, address: &str, shown: &str) {
    let (help, said) = (pieces(HELP), pieces(shown));
    let told: Vec<_> =
        pieces(address).into_iter().filter(|it| !help.contains(it) && said.contains(it)).collect();
    assert!(told.is_empty(), "{what}\nshows {told:?}:\n{shown}");
}

/// Checks that no error says a piece of the address, of the reader, of a client, or of a layer.
fn check(what: &str, address: &str, outcome: Result<LockConfig, ConfigError>) {
    let shown = match outcome {
        Err(error) => everything(&error),
        Ok(config) => {
            let client = LockClient::builder().config(config.clone()).in_memory().err();
            let layer = lock_tower::http::check(&config).err();
            client
                .iter()
                .map(|error| everything(error))
                .chain(layer.iter().map(|it| everything(it)))
                .collect()
        }
    };
    says_nothing(what, address, &shown);
}

/// Addresses, right and wrong, of characters that no message has: each has a scheme.
fn address() -> impl Strategy<Value = String> {
    let schemes = "redis:// rediss:// valkey:// unix:// redis:/ http:// redis//:";
    let scheme = prop::sample::select(schemes.split(' ').collect::<Vec<_>>());
    let part = "[QXZJKVW%_.~!$&()*+,;=-]{0,9}";
    let port = "(:[89]{1,6}|:[QXZ]{1,4})?";
    let rest = "(/[89]{0,3}|/[QXZ]{3,6})?([?#][QXZJ=&]{0,8})?";
    (scheme, part, part, part, port, rest, any::<[bool; 2]>()).prop_map(
        |(scheme, user, password, host, port, rest, [has_user, odd])| {
            let credentials = match has_user {
                true => format!("{user}:{password}@"),
                false => String::new(),
            };
            let odd = if odd { "@QQ/:" } else { "" };
            format!("{scheme}{credentials}{host}{odd}{port}{rest}")
        },
    )
}

/// Files in which the address is somewhere, with other mistakes beside it.
#[rustfmt::skip]
const FILES: &[&str] = &[
    "lock.url = 'ADDRESS' junk",
    "lock.url = 'ADDRESS",
    "lock.url = ADDRESS",
    "lock = { url = 'ADDRESS', wait }",
    "lock.url = \"\\QADDRESS\"",
    "[lock]\nurl = 'ADDRESS'\nurl = 'ADDRESS'",
    "[lock]\nADDRESS",
    "['ADDRESS']",
    "[ADDRESS]",
    "lock.url = ['ADDRESS']",
    "lock.url.'ADDRESS' = 1",
    "lock.'ADDRESS' = 1",
    "lock.url = 'ADDRESS'\nlock.cluster = ['ADDRESS']",
    "lock.cluster = ['ADDRESS', 'ADDRESS', 3]",
    "lock.cluster = ['ADDRESS', 'ADDRESS']",
    "lock.quorum = ['ADDRESS']",
    "lock.quorum = ['ADDRESS', 'redis://b']\nlock.restart_guard = 'none'",
    "lock.sentinel = { master = 'ADDRESS', nodes = ['ADDRESS'] }",
    "lock.sentinel = { master = 'ADDRESS', nodes = 'ADDRESS' }",
    "lock.sentinel = { master = 'ADDRESS', 'ADDRESS' = [] }",
    "lock = { url = 'ADDRESS', policies.p.wait = 3 }",
    "lock = { url = 'ADDRESS', namespce = 'shop' }",
    "lock = { url = 'ADDRESS', defaults = { wait = 'never', lease = '1' } }",
    "lock = { url = 'ADDRESS', policies = { p = { wait = '0s', lease = '1ms', base = 'b' } } }",
    "lock.tls.'ADDRESS' = 'a'",
    "lock = { namespace = 'ADDRESS', policies.p.wait = '0s' }",
    "lock.namespace = ['ADDRESS']",
    "lock.defaults.'ADDRESS' = 1",
    "lock.policies.'ADDRESS' = { wait = '0s' }",
    "lock.policies.'ADDRESS' = { wait = 3 }",
    "lock.base.'ADDRESS'.base = 'ADDRESS'",
    "lock.policies.p.key = '{ADDRESS'",
    "lock.policies.p.key = 'k:{ADDRESS}'",
    "lock.policies.p.http.methods = ['ADDRESS']",
    "lock.policies.p.http.methods = 'all but ADDRESS'",
    "lock.policies.p.http.'ADDRESS' = 1",
    "lock.routes = ['ADDRESS']",
    "lock.routes = [{ path = 'ADDRESS', policy = 'ADDRESS' }]",
    "lock.policies.p.key = 'k:{path.a}'\nlock.routes = [{ path = '/{ADDRESS}', policy = 'p' }]",
    "lock.policies.p = {}\nlock.routes = [{ path = '/{a}', policy = 'p', key = 'k:{path.ADDRESS}' }]",
    "lock.policies.p = {}\nlock.routes = [{ path = '/a', policy = 'p', methods = ['ADDRESS'] }]",
];

/// Where an address should be, and where it should not.
const FIELDS: &str = "lock.url lock lock.cluster lock.sentinel lock.tls lock.tls.certificate lock.tls.key \
    lock.restart_guard lock.store_patience lock.defaults lock.defaults.wait \
    lock.defaults.lease lock.defaults.kind lock.defaults.on_lost lock.defaults.max_waiters \
    lock.defaults.enforce lock.defaults.replicas lock.policies.p.base lock.policies.p.http \
    lock.policies.p.http.busy lock.policies.p.http.hold lock.routes";

fn files() -> impl Iterator<Item = String> {
    let fields = FIELDS.split(' ').map(|field| format!("{field} = 'ADDRESS'"));
    fields.chain(FILES.iter().map(|file| (*file).to_owned()))
}

#[test]
fn every_file_is_wrong_or_has_an_address() {
    for file in files() {
        let text = file.replace("ADDRESS", "http://QXZ:JKV@WWW:999999/ZZZ");
        let outcome = read(&text);
        let is_right = outcome.as_ref().is_ok_and(|config| lock_tower::http::check(config).is_ok());
        assert!(!is_right, "{text}");
        check(&text, "http://QXZ:JKV@WWW:999999/ZZZ", outcome);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_error_shows_a_part_of_an_address(
        address in address(),
        file in prop::sample::select(files().collect::<Vec<_>>()),
    ) {
        let text = file.replace("ADDRESS", &address);
        check(&text, &address, read(&text));
        check(&text, &address, LockConfig::from_figment(&Figment::new().merge(Toml::string(&text))));
        // The same in formats of one pass.
        let Ok(parsed) = toml::from_str::<serde_json::Value>(&text) else { return Ok(()) };
        let json = parsed.to_string();
        check(&json, &address, LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(&json)));
        check(&json, &address, LockConfig::from_deserializer(serde_norway::Deserializer::from_str(&json)));
        check(&json, &address, LockConfig::from_figment(&Figment::new().merge(Json::string(&json))));
        // In a program's own configuration, where no parser draws a line.
        #[derive(Debug, serde::Deserialize)]
        struct App { #[serde(default)] lock: LockConfig }
        if let Err(error) = serde_json::from_value::<App>(parsed).map(|app| app.lock) {
            says_nothing(&json, &address, &error.to_string());
        }
    }
}

/// A namespace may be any text, and so may a path: an address in the wrong line, which nothing refuses when it is read.
#[tokio::test]
async fn no_error_of_a_client_shows_an_address() {
    const ADDRESS: &str = "redis://QXZ:JKV@WWW:999999/ZZZ";
    let other = read(&format!("[lock]\nnamespace = '{ADDRESS}'")).unwrap();
    let named = LockClient::builder().config(other.clone()).in_memory().unwrap();
    let unnamed = LockClient::in_memory();
    check(
        "was",
        ADDRESS,
        Err(named.reload(read("[lock]\nnamespace = 'shop'").unwrap()).unwrap_err()),
    );
    check("is", ADDRESS, Err(unnamed.reload(other).unwrap_err()));
    for field in ["ca = 'ADDRESS'", "certificate = 'ADDRESS', key = 'ADDRESS'"] {
        let text = format!("[lock]\nurl = 'rediss://127.0.0.1:1'\ntls = {{ {field} }}");
        let config = read(&text.replace("ADDRESS", ADDRESS)).unwrap();
        let said = everything(&LockClient::from_config(config).await.unwrap_err());
        assert!(said.contains("cannot be read") && !said.contains("QXZ"), "{said}");
    }
}

#[test]
fn no_file_shows_an_address() {
    const ADDRESS: &str = "redis://:s3cr3t@hidden";
    Jail::expect_with(|jail| {
        jail.create_file("broken.toml", &format!("[lock]\nurl = '{ADDRESS}' junk\n"))?;
        jail.create_file("broken.json", &format!(r#"{{ "lock": {{ "url": "{ADDRESS}" "#))?;
        let error =
            LockConfig::from_figment(&Figment::new().merge(Toml::file("broken.toml"))).unwrap_err();
        assert!(error.to_string().contains("line 2, column"), "{error}");
        check("TOML", ADDRESS, Err(error));
        check(
            "JSON",
            ADDRESS,
            LockConfig::from_figment(&Figment::new().merge(Json::file("broken.json"))),
        );
        Ok(())
    });
}

#[test]
fn no_variable_shows_an_address() {
    const ADDRESS: &str = "redis://:s3cr3t@hidden";
    for (name, value, expected) in [
        ("APP_LOCK__URL", "{a=s3cr3t}", "lock.url: invalid type: found map, expected a string"),
        ("APP_LOCK__URL", "739184", "lock.url: invalid type: found unsigned int"),
        ("APP_LOCK__URL__PASSWORD", "s3cr3t", "lock.url: "),
        ("APP_LOCK__QUORUM", ADDRESS, "lock.quorum: invalid type: found string"),
        ("APP_LOCK__REDIS", ADDRESS, "lock.redis: unknown field"),
        ("APP_LOCK__DEFAULTS__WAIT", ADDRESS, "lock.defaults.wait: invalid value"),
        ("APP_LOCK__DEFAULTS__WAIT", "3", "lock.defaults.wait: invalid type"),
        ("APP_LOCK_URL", ADDRESS, "lock_url: is no table of locks"),
    ] {
        Jail::expect_with(|jail| {
            jail.create_file(
                "app.toml",
                &format!("[lock]\nurl = '{ADDRESS}'\nnamespace = 'shop'\n"),
            )?;
            let all = || {
                let variables = Env::prefixed("APP_").split("__");
                Figment::new().merge(Toml::file("app.toml")).merge(variables)
            };
            let right = LockConfig::from_figment(&all());
            assert_eq!(right.as_ref().unwrap().namespace(), Some("shop"));
            assert!(!format!("{right:?}\n{right:#?}").contains("s3cr3t"));
            jail.set_env(name, value);
            let outcome = LockConfig::from_figment(&all());
            let said = outcome.as_ref().expect_err(name).to_string();
            check(name, ADDRESS, outcome);
            assert!(
                said.contains(&format!("environment variable(s): {expected}")),
                "{name}: {said}"
            );
            assert!(!said.contains("739184"), "{name}: {said}");
            Ok(())
        });
    }
}
