//! Configurations on the pages: of locks, and of Redis.

use lock_page_tests::pages;
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
            if let Err(error) = LockConfig::from_toml(&block.code) {
                mistakes.push(format!("{}: {error}", page.place(block)));
            }
        }
    }
    report(mistakes, looked_at, 1);
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
