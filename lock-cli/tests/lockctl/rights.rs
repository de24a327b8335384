//! `lockctl doctor` tries the rights that `docs/operations.md` lists, all of them and no other.

use std::collections::BTreeSet;
use std::fs;

use lock_tests::{RedisCluster, RedisServer};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::world::{Ran, lockctl};

/// How many users are tried at once.
const AT_ONCE: usize = 4;

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md")).unwrap()
}

/// The rights in a part of the page.
fn rights_in(part: &str) -> BTreeSet<String> {
    let words = part.split(|c: char| c.is_whitespace() || "`',;".contains(c));
    words.filter(|word| word.len() > 1 && word.starts_with('+')).map(str::to_owned).collect()
}

/// The part of the page from the first of these words to the end of its paragraph or list item.
fn part(from: &str) -> String {
    let page = page();
    let start = page.find(from).unwrap_or_else(|| panic!("the page has no {from:?}"));
    let rest = &page[start..];
    let end = rest.find("\n\n").into_iter().chain(rest.find("\n- ")).min();
    rest[..end.unwrap_or(rest.len())].to_owned()
}

fn all() -> BTreeSet<String> {
    rights_in(&part("ACL SETUSER locks on"))
}

/// The rights without which all locks work.
fn optional() -> BTreeSet<String> {
    let part = part("`+info` is for");
    assert!(part.ends_with("without these four."), "{part}");
    rights_in(&part)
}

/// The rights that a cluster needs as well, and those that it does not need.
fn of_clusters() -> (BTreeSet<String>, BTreeSet<String>) {
    let part = part("**Redis Cluster**");
    let (more, less) = part.split_once("as well").expect("it says which are needed as well");
    (rights_in(more), rights_in(less))
}

async fn permit(server: &RedisServer, user: &str, rights: &BTreeSet<String>) {
    let rules = ["ACL", "SETUSER", user, "reset", "on", ">secret", "~*", "&*"];
    let words: Vec<_> = rules.into_iter().chain(rights.iter().map(String::as_str)).collect();
    server.client().cmd(&words).await;
}

async fn doctor(option: &str, user: &str, port: u16) -> Ran {
    lockctl(&[option, &format!("redis://{user}:secret@127.0.0.1:{port}"), "doctor", "--json"]).await
}

/// The verdicts on missing rights, and what was found.
fn missing(ran: &Ran) -> Vec<(String, String)> {
    let json = ran.json();
    let checks = json["checks"].as_array().unwrap().iter();
    let rights = checks.filter(|check| check["check"] == "rights" && check["verdict"] != "ok");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rights.map(|check| (text(&check["verdict"]), text(&check["found"]))).collect()
}

/// Asserts that the doctor says of this right, and of no other, that it is missing, once for each server.
fn names_it(ran: &Ran, right: &str, servers: usize) {
    let (verdict, code) = if optional().contains(right) { ("warning", 0) } else { ("problem", 1) };
    let missing = missing(ran);
    assert_eq!((missing.len(), ran.code), (servers, code), "without {right}: {ran:?}");
    for (said, found) in missing {
        assert_eq!(said, verdict, "without {right}: {ran:?}");
        assert!(found.starts_with(&format!("`{right}` is missing, needed for ")), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_page_are_enough() {
    let server = RedisServer::start().await;
    permit(&server, "ops", &all()).await;
    let ran = doctor("--url", "ops", server.port()).await;
    assert_eq!((missing(&ran), ran.code), (Vec::new(), 0), "{ran:?}");
    let keys = server.client().keys().await;
    assert!(!keys.iter().any(|key| key.ends_with(":absent")), "a trial made a key: {keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_missing_right_is_named() {
    let server = RedisServer::start().await;
    let rights: Vec<_> = all().into_iter().collect();
    assert!(rights.len() > 40, "{rights:?}");
    let user = |right: &str| right[1..].replace('|', "-");
    for right in &rights {
        let mut others = all();
        others.remove(right);
        permit(&server, &user(right), &others).await;
    }
    for some in rights.chunks(AT_ONCE) {
        let mut runs = JoinSet::new();
        for right in some {
            let (right, user, port) = (right.clone(), user(right), server.port());
            runs.spawn(async move { (doctor("--url", &user, port).await, right) });
        }
        for (ran, right) in runs.join_all().await {
            names_it(&ran, &right, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_missing_rights_are_named_at_once() {
    let server = RedisServer::start().await;
    permit(&server, "ops", &rights_in("+evalsha +script|load")).await;
    let ran = doctor("--url", "ops", server.port()).await;
    assert_eq!((missing(&ran).len(), ran.code), (all().len() - 2, 1), "{ran:?}");
    let text = lockctl(&["--url", &server.url(), "doctor"]).await;
    assert!(text.stdout.contains("none is missing"), "{text:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_missing_right_in_a_cluster_is_named() {
    let cluster = RedisCluster::start().await;
    let (more, less) = of_clusters();
    assert_eq!((more.len(), less.len()), (5, 3), "{more:?} {less:?}");
    let needed: BTreeSet<_> = all().difference(&less).chain(&more).cloned().collect();
    let permit_all = async |rights: &BTreeSet<String>| {
        for node in 0..3 {
            permit(cluster.node(node), "ops", rights).await;
        }
    };
    let port = cluster.node(0).port();
    permit_all(&needed).await;
    let ran = doctor("--cluster", "ops", port).await;
    assert_eq!((missing(&ran), ran.code), (Vec::new(), 0), "{ran:?}");
    for right in more {
        let others = needed.iter().filter(|one| **one != right).cloned().collect();
        permit_all(&others).await;
        let ran = doctor("--cluster", "ops", port).await;
        match &*right {
            // Without it there is no client.
            "+cluster|slots" => ran.failed(3, "grant the user `+cluster|slots`"),
            _ => names_it(&ran, &right, 3),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_to_choose_a_database_is_named() {
    let server = RedisServer::start().await;
    permit(&server, "ops", &all()).await;
    let url = format!("redis://ops:secret@127.0.0.1:{}/2", server.port());
    lockctl(&["--url", &url, "doctor"]).await.failed(3, "grant the user `+select`");
}
