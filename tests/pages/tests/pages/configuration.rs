//! Configurations on the pages: of locks, and of Redis.

use std::collections::BTreeSet;
use std::fs;

use lock_page_tests::{Page, pages, root};
use lock_runtime::policy::LockConfig;
use lock_tests::RedisServer;

use crate::report;

#[test]
fn configurations_are_read() {
    let mut mistakes = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        for block in page.in_language("toml").filter(|block| block.code.contains("[lock")) {
            looked_at += 1;
            let read = LockConfig::from_toml(&block.code);
            if let Err(error) = read.and_then(|config| lock_tower::http::check(&config)) {
                mistakes.push(format!("{}: {error}", page.place(block)));
            }
        }
    }
    report(mistakes, looked_at, 1);
}

/// The fields of the table with that path, as its error for an unknown field lists them.
fn fields(table: &str) -> Vec<String> {
    let text = format!("[lock.policies.p]\n{table}");
    let read = LockConfig::from_toml(&text).and_then(|config| lock_tower::http::check(&config));
    let Err(error) = read else { panic!("it is known: {text}") };
    let error = error.to_string();
    let (_, names) = error.split_once("expected").expect("it lists the fields");
    let names = names.split(';').next().unwrap_or_default();
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The tables of a configuration, each with a field that it does not have.
const TABLES: [&str; 6] = [
    "[lock]\nno_such = 1",
    "no_such = 1",
    "http = { no_such = 1 }",
    "[[lock.routes]]\npath = '/'\npolicy = 'p'\nno_such = 1",
    "[lock.sentinel]\nno_such = 1",
    "[lock.tls]\nno_such = 1",
];

fn schema() -> serde_json::Value {
    let path = root().join("lock-cli/src/lock.schema.json");
    let text = fs::read_to_string(path).expect("it can be read");
    serde_json::from_str(&text).expect("it is JSON")
}

/// The JSON schema of `lockctl schema` has the fields of the model, and no others.
#[test]
fn the_schema_has_every_field() {
    let schema = schema();
    let names = |pointer: &str| -> BTreeSet<String> {
        let table = schema.pointer(pointer).and_then(|it| it.as_object());
        table.unwrap_or_else(|| panic!("no {pointer}")).keys().cloned().collect()
    };
    for (table, pointer) in TABLES.iter().zip([
        "/$defs/lock/properties",
        "/$defs/policy/properties",
        "/$defs/http/properties",
        "/$defs/route/properties",
        "/$defs/lock/properties/sentinel/properties",
        "/$defs/lock/properties/tls/properties",
    ]) {
        assert_eq!(names(pointer), fields(table).into_iter().collect(), "{pointer}");
    }
}

/// What the pages show is valid by the schema, and files with mistakes that a schema can express are not.
#[test]
fn configurations_are_valid_by_the_schema() {
    let schema = jsonschema::validator_for(&schema()).expect("it is a schema");
    let json = |toml: &str| toml::from_str::<serde_json::Value>(toml).ok();
    let mut mistakes = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        for block in page.in_language("toml").filter(|block| block.code.contains("[lock")) {
            looked_at += 1;
            for error in json(&block.code).iter().flat_map(|json| schema.iter_errors(json)) {
                mistakes.push(format!("{}: {}: {error}", page.place(block), error.instance_path));
            }
        }
    }
    for (text, said) in lock_tests::bad_config::WRONG_TYPES {
        if !json(text).is_some_and(|json| schema.is_valid(&json)) {
            looked_at += 1;
        } else {
            mistakes.push(format!("valid by the schema, although {said}: {text}"));
        }
    }
    report(mistakes, looked_at, 30);
}

/// Right by the schema and by the code.
const RIGHT: [&str; 8] = [
    r#"{ "lock": { "url": "memory:", "defaults": { "wait": "1.5s", "lease": "watchdog 2.5 min 1s" } } }"#,
    r#"{ "lock": { "store_patience": "5000µs", "token_ttl": "1h 30m" } }"#,
    r#"{ "lock": { "defaults": null, "base": null, "policies": null, "routes": null, "tls": null } }"#,
    r#"{ "lock": { "base": { "none": null }, "policies": { "p": null, "q": { "http": null } } } }"#,
    r#"{ "lock": { "policies": { "Straße 7_a.b-c": {} } } }"#,
    r#"{ "lock": { "cluster": ["redis://a"] } }"#,
    r#"{ "lock": { "sentinel": { "master": "m", "nodes": ["redis://a"] } } }"#,
    r#"{ "lock": { "quorum": ["redis://a"], "restart_guard": "1m" } }"#,
];

/// Wrong by the schema and by the code.
const WRONG: [&str; 15] = [
    r#"{ "lock": { "defaults": { "wait": ".5s" } } }"#,
    r#"{ "lock": { "defaults": { "wait": "1,5s" } } }"#,
    r#"{ "lock": { "defaults": { "lease": "watchdog2s" } } }"#,
    r#"{ "lock": { "defaults": { "kind": "fair" } } }"#,
    r#"{ "lock": { "defaults": { "key": "a" } } }"#,
    r#"{ "lock": { "defaults": { "base": "b" }, "base": { "b": {} } } }"#,
    r#"{ "lock": { "policies": { "a:b": {} } } }"#,
    r#"{ "lock": { "base": { "": {} } } }"#,
    r#"{ "lock": { "policies": { "none": {} } } }"#,
    r#"{ "lock": { "policies": { "p": { "wait": null } } } }"#,
    r#"{ "lock": { "policies": { "p": { "replicas": null } } } }"#,
    r#"{ "lock": { "url": "memory:", "cluster": ["redis://a"] } }"#,
    r#"{ "lock": { "url": "memory:", "quorum": ["redis://a"], "restart_guard": "1m" } }"#,
    r#"{ "lock": { "cluster": ["redis://a"], "sentinel": { "master": "m", "nodes": ["redis://a"] } } }"#,
    r#"{ "lock": { "tls": { "ca": "ca.pem", "key": "c.key" } } }"#,
];

/// The schema and the code agree about what a reader of the schema relies on.
#[test]
fn the_schema_says_what_the_code_says() {
    let schema = jsonschema::validator_for(&schema()).expect("it is a schema");
    let agreed = |text: &str| {
        let json: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
        let by_code = LockConfig::from_deserializer(&json);
        let by_code = by_code.and_then(|config| lock_tower::http::check(&config));
        (schema.is_valid(&json), by_code.map_err(|error| error.to_string()))
    };
    for text in RIGHT {
        assert_eq!(agreed(text), (true, Ok(())), "{text}");
    }
    for text in WRONG {
        let (by_schema, by_code) = agreed(text);
        assert_eq!((by_schema, by_code.is_ok()), (false, false), "{text}");
    }
}

/// `docs/configuration.md` has a row for each field of the model, and sets each field in its full file.
#[test]
fn the_guide_has_every_field() {
    let path = root().join("docs/configuration.md");
    let text = fs::read_to_string(path).expect("it can be read");
    let page = Page::parse("docs/configuration.md", &text);
    let full = page.in_language("toml").next().expect("it has a full file");
    let first_cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: BTreeSet<_> =
        first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let tables = TABLES[..4].iter().map(|table| fields(table));
    // One address, not all.
    let alternatives = ["cluster", "sentinel", "quorum", "restart_guard", "tls"];
    let mut looked_at = 0;
    let mut mistakes = Vec::new();
    for field in tables.flatten() {
        looked_at += 1;
        if !rows.contains(field.as_str()) {
            mistakes.push(format!("docs/configuration.md: no row is about `{field}`"));
        }
        let is_set = ["{field} = ", ".{field}", "[lock.{field}.", "[lock.{field}]"]
            .iter()
            .any(|form| full.code.contains(&form.replace("{field}", &field)));
        if !is_set && !alternatives.contains(&field.as_str()) {
            mistakes.push(format!("docs/configuration.md: the full file does not set `{field}`"));
        }
    }
    for field in TABLES[4..].iter().flat_map(|table| fields(table)) {
        assert!(text.contains(&format!("`{field}`")), "docs/configuration.md lacks `{field}`");
    }
    report(mistakes, looked_at, 38);
}

/// A server starts with the lines of each `conf` block.
#[tokio::test]
async fn redis_starts_with_each_configuration() {
    for page in pages() {
        for block in page.in_language("conf") {
            let mut server = RedisServer::builder();
            let mut settings = Vec::new();
            for line in block.code.lines() {
                let words = shlex::split(line).unwrap_or_default();
                let [name, values @ ..] = &words[..] else { continue };
                server = server.arg(&format!("--{name}"), &values.join(" "));
                settings.push((name.clone(), values.join(" ")));
            }
            let server = server.start().await;
            for (name, value) in settings {
                let set: Vec<String> = server.client().get(&["CONFIG", "GET", &name]).await;
                let place = page.place(block);
                assert_eq!(set, [name, value], "{place}: the server has another value");
            }
        }
    }
}
