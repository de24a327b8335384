//! What `docs/operations.md` promises: its rights are enough, and each alert has a runbook.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use lock_page_tests::{Page, pages, root};
use lock_runtime::error::StoreErrorKind;
use lock_runtime::{LockClient, LockError, LockGuard};
use lock_tests::{RedisServer, eventually};

use crate::shell::{commands, for_the_server};

/// More than a connection or a notification takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn guide() -> Page {
    let found = pages().into_iter().find(|page| page.path == "docs/operations.md");
    found.expect("the guide is there")
}

/// The words of the commands that give the user its rights, in their order.
fn rights() -> Vec<Vec<String>> {
    let page = guide();
    let scripts = page.in_language("sh").map(|block| commands(&block.code));
    let commands: Vec<_> = scripts.flatten().collect();
    let for_servers = commands.iter().filter_map(|words| for_the_server(words));
    for_servers.filter(|words| words[1] == "SETUSER").map(<[String]>::to_vec).collect()
}

/// The documentation of `LockClientBuilder::connect` has the same rights, and a test that no script needs another one.
#[test]
fn the_rights_are_those_that_connect_documents() {
    let source = root().join("lock-runtime/src/client/connect.rs");
    let source = fs::read_to_string(source).expect("it can be read");
    let (_, rest) = source.split_once("ACL SETUSER locks").expect("it is documented");
    let (block, _) = rest.split_once("```").expect("the block ends");
    let is_right = |word: &&str| word.starts_with('+');
    let mut documented: BTreeSet<_> = block.split_whitespace().filter(is_right).collect();
    documented.extend(["+info", "+client|setname", "+client|list"]);
    let rights = rights();
    let given: BTreeSet<_> = rights[0].iter().map(String::as_str).filter(is_right).collect();
    assert_eq!(given, documented);
}

async fn released(guard: Result<LockGuard, LockError>) {
    guard.unwrap().release().await.unwrap();
}

/// Uses each kind of lock, and what operators use.
async fn uses_everything(client: &LockClient) {
    released(client.mutex("m").lock().await).await;
    released(client.fair_mutex("f").lock().await).await;
    released(client.rw_lock("rw").read().await).await;
    released(client.rw_lock("rw").write().await).await;
    released(client.multi_lock(["{x}:a", "{x}:b"]).lock().await).await;
    let two = 2;
    client.semaphore("s", two).acquire().await.unwrap().release().await.unwrap();
    let latch = client.latch("l");
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 0);
    let held = client.mutex("m").lock().await.unwrap();
    let found = client.admin().survey().within(SOON).await.unwrap();
    assert!(found.not_listed.is_none() && found.locks.len() == 1, "{found:?}");
    assert!(client.admin().inspect("m").await.unwrap().kind.is_some());
    assert!(client.admin().force_release("m").await.unwrap());
    drop(held);
}

/// A waiter of each kind is told of a release, which needs the right to listen.
async fn is_told(server: &RedisServer, client: &LockClient, other: &LockClient, channel: &str) {
    let held = client.mutex("w").lock().await.unwrap();
    let waiter = tokio::spawn(other.mutex("w").lock());
    let subscribers = ["PUBSUB", "NUMSUB", channel];
    eventually(SOON, "the waiter listens", async || {
        let counts: Vec<(String, u32)> = server.client().get(&subscribers).await;
        counts[0].1 > 0
    })
    .await;
    held.release().await.unwrap();
    released(waiter.await.unwrap()).await;
}

/// First with the rights for all names, then with those for a namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_are_enough() {
    let server = RedisServer::start().await;
    let url = format!("redis://locks:SECRET@127.0.0.1:{}", server.port());
    let rights = rights();
    assert_eq!(rights.len(), 2, "one command for all names, one for a namespace");
    for (words, namespace) in rights.iter().zip([None, Some("shop")]) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        server.client().cmd(&words).await;
        let connect = async || {
            let mut builder = LockClient::builder();
            if let Some(namespace) = namespace {
                builder = builder.namespace(namespace);
            }
            builder.connect(&url).await.unwrap()
        };
        let (one, other) = (connect().await, connect().await);
        uses_everything(&one).await;
        let prefix = namespace.map_or(String::new(), |namespace| format!("{namespace}:"));
        is_told(&server, &one, &other, &format!("redisson_lock__channel:{{{prefix}w}}")).await;
    }
    let outside = LockClient::connect(&url).await.unwrap();
    let refused = outside.mutex("w").lock().await.expect_err("the namespace does not limit it");
    let kind = match &refused {
        LockError::Store(error) => Some(error.kind()),
        _ => None,
    };
    assert_eq!(kind, Some(StoreErrorKind::Denied), "{refused}");
}

#[test]
fn each_alert_has_a_runbook() {
    let page = fs::read_to_string(root().join("docs/metrics.md")).expect("it can be read");
    let alerts: Vec<_> =
        page.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let guide = fs::read_to_string(root().join("docs/operations.md")).expect("it can be read");
    let runbooks: Vec<_> = guide.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert!(alerts.len() >= 5, "{alerts:?}");
    assert_eq!(runbooks, alerts);
}
