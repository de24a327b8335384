//! Configurations on the pages: of locks, and of Redis.

use std::collections::BTreeSet;
use std::fs;

use lock_page_tests::{Page, pages, root};
use lock_runtime::policy::{HttpPolicy, LockConfig, LockPolicy, LockRoute, LockSection, Sentinel};
use lock_tests::RedisServer;
use serde::de::DeserializeOwned;

use crate::report;

#[test]
fn configurations_are_read() {
    let mut mistakes = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        for block in page.in_language("toml").filter(|block| block.code.contains("[lock")) {
            looked_at += 1;
            if let Err(error) = LockConfig::from_toml(&block.code) {
                mistakes.push(format!("{}: {error}", page.place(block)));
            }
        }
    }
    report(mistakes, looked_at, 1);
}

/// The fields of a table of the model, as its error for an unknown field lists them.
fn fields<T: DeserializeOwned>() -> Vec<String> {
    let Err(error) = toml::from_str::<T>("no_such_field = 1") else { panic!("it is known") };
    let error = error.to_string();
    let (_, names) = error.split_once("expected").expect("it lists the fields");
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
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
    let tables = [
        fields::<LockSection>(),
        fields::<LockPolicy>(),
        fields::<HttpPolicy>(),
        fields::<LockRoute>(),
    ];
    // One address, not all.
    let alternatives = ["cluster", "sentinel", "quorum", "restart_guard"];
    let mut looked_at = 0;
    let mut mistakes = Vec::new();
    for field in tables.iter().flatten() {
        looked_at += 1;
        if !rows.contains(field.as_str()) {
            mistakes.push(format!("docs/configuration.md: no row is about `{field}`"));
        }
        let is_set = ["{field} = ", ".{field}", "[lock.{field}.", "[lock.{field}]"]
            .iter()
            .any(|form| full.code.contains(&form.replace("{field}", field)));
        if !is_set && !alternatives.contains(&field.as_str()) {
            mistakes.push(format!("docs/configuration.md: the full file does not set `{field}`"));
        }
    }
    for field in fields::<Sentinel>() {
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
