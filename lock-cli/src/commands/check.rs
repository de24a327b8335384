//! `lockctl check`: validates a configuration as a service would, and shows where each value of a policy comes from.

mod built_in;
mod tree;

use std::fmt::Write;
use std::path::Path;

use lock_runtime::policy::LockConfig;
use serde_json::{Value, json};

use self::tree::Table;
use crate::answer::{Answer, table};
use crate::config_file;
use crate::failure::Failure;
use crate::text::{count, count_of, harmless};

/// What a policy has beside the settings that it shows.
const BASE: &str = "base";

/// The table whose fields are inherited one by one.
const HTTP: &str = "http";

pub(super) fn check(file: &Path) -> Result<Answer, Failure> {
    let text = config_file::text(file)?;
    let config = config_file::config(file, &text).map_err(Failure::refused)?;
    // What only layers read: the service that has one refuses it when it starts.
    lock_tower::http::check(&config)
        .map_err(|error| Failure::refused(config_file::invalid(file, &error)))?;
    let written = serde_json::to_value(&config).unwrap_or_default();
    let root = match config_file::is_json(file) {
        true => Table::of_json(&text),
        false => Table::of_toml(&text),
    };
    let lock = root.as_ref().and_then(|root| root.table("lock"));
    let policies: Vec<Shown> = match lock {
        Some(lock) => lock.table("policies").map_or_else(Vec::new, |all| shown(all, lock)),
        None => Vec::new(),
    };
    let routes = written["routes"].as_array().map_or(0, Vec::len);
    let hints = hints(&config, &written);
    Ok(Answer::new(text_of(file, routes, &policies, &hints), json_of(&policies, &hints)))
}

/// What a service must set in code, because the file does not.
fn hints(config: &LockConfig, written: &Value) -> Vec<String> {
    let places = ["url", "cluster", "sentinel", "quorum"];
    let no_server = places.iter().all(|place| written[place].is_null()).then(|| {
        "it names no server: a service must connect in code, or set lock.url (\"memory:\" for locks of one process)"
            .to_owned()
    });
    let routes = written["routes"].as_array().into_iter().flatten();
    let keyless = routes.enumerate().filter_map(|(at, route)| {
        let policy = config.policy(route["policy"].as_str()?).ok()?;
        let has_key = !route["key"].is_null() || policy.key.is_some();
        (!has_key).then(|| {
            format!(
                "lock.routes[{at}] and its policy have no key: a layer refuses that, unless it has a key in \
                 code; give one of them a key, such as \"order:{{path.id}}\""
            )
        })
    });
    no_server.into_iter().chain(keyless).collect()
}

/// A policy, its bases and the defaults put together.
struct Shown {
    name: String,
    values: Vec<From>,
}

/// A value, and where it comes from.
struct From {
    field: String,
    value: String,
    /// `None` if no table has the field.
    table: Option<String>,
    line: Option<usize>,
}

fn shown(policies: &Table, lock: &Table) -> Vec<Shown> {
    let with_name = policies.tables().map(|(name, policy)| {
        let mut layers = vec![(format!("lock.policies.{name}"), policy)];
        layers.extend(bases(policy, lock));
        layers.extend(lock.table("defaults").map(|it| ("lock.defaults".to_owned(), it)));
        Shown { name: name.to_owned(), values: values(&layers) }
    });
    with_name.collect()
}

/// The bases of a policy, the nearest first. A checked configuration has no circle of them.
fn bases<'a>(policy: &'a Table, lock: &'a Table) -> Vec<(String, &'a Table)> {
    let (mut bases, mut last) = (Vec::new(), policy);
    while let Some(name) = last.text(BASE)
        && let Some(base) = lock.table("base").and_then(|all| all.table(name))
    {
        bases.push((format!("lock.base.{name}"), base));
        last = base;
    }
    bases
}

/// True for a policy with a setting that only layers read.
fn is_for_layers(values: &[From]) -> bool {
    values.iter().any(|From { field, .. }| {
        field == "key" || field.strip_prefix(HTTP).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// The value of each field in the first table that has it, and what is built in for those that none has.
fn values(layers: &[(String, &Table)]) -> Vec<From> {
    let mut values: Vec<From> = Vec::new();
    for (name, layer) in layers {
        for (field, value, line) in layer.values(HTTP) {
            if field != BASE && values.iter().all(|known| known.field != field) {
                values.push(From { field, value, table: Some(name.clone()), line });
            }
        }
    }
    let http = if is_for_layers(&values) { built_in::http() } else { Vec::new() };
    for (field, value) in built_in::settings().into_iter().chain(http) {
        if values.iter().all(|known| known.field != field) {
            values.push(From { field: field.to_owned(), value, table: None, line: None });
        }
    }
    values.sort_by(|one, other| one.field.cmp(&other.field));
    values
}

fn text_of(file: &Path, routes: usize, policies: &[Shown], hints: &[String]) -> String {
    let mut text = format!(
        "{}: valid, with {} and {}\n",
        file.display(),
        count_of(policies.len(), "policy", "policies"),
        count(routes, "route"),
    );
    for hint in hints {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "hint: {hint}");
    }
    for policy in policies {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}\n", harmless(&policy.name));
        let rows = policy.values.iter().map(|from| {
            let line = from.line.map_or(String::new(), |line| format!(", line {line}"));
            [
                format!("  {}", from.field),
                harmless(&from.value),
                from.table.as_ref().map_or_else(
                    || "built in, unless the program sets it".to_owned(),
                    |table| format!("[{}]{line}", harmless(table)),
                ),
            ]
        });
        text.push_str(&table(["  FIELD", "VALUE", "FROM"], &[], rows));
    }
    text
}

fn json_of(policies: &[Shown], hints: &[String]) -> Value {
    let policies = policies.iter().map(|policy| {
        let values = policy.values.iter().map(|from| {
            let From { field, value, table, line } = from;
            json!({ "field": field, "value": value, "table": table, "line": line })
        });
        json!({ "name": policy.name, "values": values.collect::<Vec<_>>() })
    });
    json!({ "valid": true, "hints": hints, "policies": policies.collect::<Vec<_>>() })
}
