//! The lock order: locks that are acquired inside of each other in different orders are reported, without a deadlock.
//!
//! All tests of this program share what is recorded, so each has classes of its own.

mod nothing;
mod sites;

use lock_runtime::admin::{Inversion, LockOrder, OrderEdge};
use tracing::Level;

use crate::prelude::*;

/// What is logged about orders that contradict each other.
struct Warnings(Log);

impl Warnings {
    fn start() -> Self {
        Self(Log::start_at(Level::WARN))
    }

    fn lines(&self) -> Vec<String> {
        self.0.lines_with("orders that contradict each other")
    }
}

fn client() -> LockClient {
    LockClient::builder().lock_order(true).in_memory().unwrap()
}

/// Acquires these mutexes, each inside of the one before, and releases them.
fn nest<'a>(client: &'a LockClient, names: &'a [&'a str]) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        if let Some((name, inner)) = names.split_first() {
            client.mutex(*name).run(nest(client, inner)).await.unwrap();
        }
    })
}

/// The recorded edges whose outer lock is one of `classes`: outer and inner.
fn edges(order: &LockOrder, classes: &[&str]) -> Vec<(String, String)> {
    let is_of = |edge: &&OrderEdge| classes.contains(&edge.outer.as_str());
    let ends = |edge: &OrderEdge| (edge.outer.clone(), edge.inner.clone());
    order.edges.iter().filter(is_of).map(ends).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(outer, inner)| (outer.to_owned(), inner.to_owned())).into()
}

/// The recorded inversions with a lock that is called so.
fn inversions(order: &LockOrder, name: &str) -> Vec<Inversion> {
    let has = |one: &&Inversion| one.edges.iter().any(|edge| edge.outer == name);
    order.inversions.iter().filter(has).cloned().collect()
}

/// The promise of the feature: two tests, each with a client of its own, that nest two locks in different orders.
#[tokio::test]
async fn two_orders_in_two_clients_are_reported_once_with_all_places() {
    let (warnings, server) = (Warnings::start(), RedisServer::start().await);
    let first = LockClient::builder().lock_order(true).namespace("first");
    let first = first.connect(&server.url()).await.unwrap();
    // Of the call of `run`.
    let line_of_first = line!() + 3;
    first
        .mutex("two-order:1")
        .run(first.mutex("two-stock:1").run(async {}))
        .await
        .unwrap()
        .unwrap();
    assert!(first.shutdown(SOON).await.is_clean());
    drop(first);
    assert_eq!(warnings.lines(), [""; 0]);

    let second = client();
    for times in 1..=3 {
        nest(&second, &["two-stock:2", "two-order:2"]).await;
        let lines = warnings.lines();
        assert_eq!(lines.len(), 1, "after {times}: {lines:#?}");
        let [line] = lines.try_into().unwrap();
        assert!(line.contains(" WARN ") && line.contains("lock.name=\"two-order:2\""), "{line}");
        let found = inversions(&second.admin().lock_order(), "two-order");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(line.contains(&found[0].to_string()), "{line}");
        let [new, old] = &found[0].edges[..] else { panic!("{found:#?}") };
        assert_eq!((&*new.outer, &*new.inner, new.times), ("two-stock", "two-order", times));
        assert_eq!((&*old.outer, &*old.inner, old.times), ("two-order", "two-stock", 1));
        let here = format!("{}:{line_of_first}:", file!());
        assert!(old.outer_site.starts_with(&here), "{old:#?}");
        assert!(old.inner_site.starts_with(&here), "{old:#?}");
        for site in [&new.outer_site, &new.inner_site, &old.outer_site, &old.inner_site] {
            assert!(site.starts_with(file!()) && line.contains(site.as_str()), "{site}: {line}");
        }
    }
}

#[tokio::test]
async fn a_cycle_of_three_is_reported() {
    let (warnings, client) = (Warnings::start(), client());
    nest(&client, &["three-a:1", "three-b:1"]).await;
    nest(&client, &["three-b:2", "three-c:2"]).await;
    assert_eq!(warnings.lines(), [""; 0]);
    nest(&client, &["three-c:3", "three-a:3"]).await;
    assert_eq!(warnings.lines().len(), 1);
    let found = inversions(&client.admin().lock_order(), "three-a");
    assert_eq!(found.len(), 1);
    let cycle: Vec<_> = found[0].edges.iter().map(|edge| (&*edge.outer, &*edge.inner)).collect();
    let [a, b, c] = ["three-a", "three-b", "three-c"];
    assert_eq!(cycle, [(c, a), (a, b), (b, c)]);
}

/// Not only the innermost hold counts, and a guard counts where it runs, wherever it was acquired.
#[tokio::test]
async fn every_hold_around_an_acquire_counts() {
    let (warnings, client) = (Warnings::start(), client());
    let all @ [a, b, c] = ["every-a", "every-b", "every-c"];
    nest(&client, &all).await;
    let found = edges(&client.admin().lock_order(), &all);
    assert_eq!(found, pairs([(a, b), (b, c), (a, c)]));
    nest(&client, &[c, a]).await;
    assert_eq!(warnings.lines().len(), 1);
    let found = inversions(&client.admin().lock_order(), c);
    assert_eq!(found[0].edges.len(), 2, "the shortest cycle");

    let [a, b, c] = ["guard-a", "guard-b", "guard-c"];
    let guard = client.mutex(b).lock().await.unwrap();
    client.mutex(a).run(guard.run(nest(&client, &[c]))).await.unwrap().unwrap();
    let found = edges(&client.admin().lock_order(), &[a, b]);
    assert_eq!(found, pairs([(b, c), (a, c)]));
}

#[tokio::test]
async fn names_of_one_class_are_compared() {
    let (warnings, client) = (Warnings::start(), client());
    nest(&client, &["one-account:1", "one-account:2", "one-account:3"]).await;
    nest(&client, &["one-account:2", "one-account:3"]).await;
    assert_eq!(warnings.lines(), [""; 0], "they are in one order");
    nest(&client, &["one-account:3", "one-account:1"]).await;
    assert_eq!(warnings.lines().len(), 1);
    let order = client.admin().lock_order();
    assert_eq!(edges(&order, &["one-account"]), pairs([("one-account", "one-account")]));
    let found = inversions(&order, "one-account:3");
    assert_eq!(found.len(), 1);
    let edge = &found[0].edges[0];
    assert_eq!((&*edge.outer, &*edge.inner), ("one-account:3", "one-account:1"));
}

/// Acquires are recorded before they wait, so a deadlock is in the log while it lasts.
#[tokio::test(start_paused = true)]
async fn a_deadlock_is_logged_while_it_lasts() {
    let (warnings, client) = (Warnings::start(), client());
    let both = async |first: &str, second: &str| {
        let inner = client.mutex(second);
        let body = async {
            sleep(ms(10)).await;
            inner.lock().await.map(drop)
        };
        client.mutex(first).run(body).await
    };
    let deadlock = futures_util::future::join(both("dead-a", "dead-b"), both("dead-b", "dead-a"));
    assert!(timeout(secs(5), deadlock).await.is_err(), "it is none");
    assert_eq!(warnings.lines().len(), 1);
}

#[tokio::test]
async fn what_a_client_records_is_its_choice() {
    let warnings = Warnings::start();
    let off = LockClient::builder().lock_order(false).in_memory().unwrap();
    nest(&off, &["off-a", "off-b"]).await;
    nest(&off, &["off-b", "off-a"]).await;
    assert_eq!(edges(&off.admin().lock_order(), &["off-a", "off-b"]), []);
    assert_eq!(warnings.lines(), [""; 0]);
    // Nor does it count around or inside of the locks of another.
    let on = client();
    on.mutex("off-c").run(nest(&off, &["off-a"])).await.unwrap();
    off.mutex("off-a").run(nest(&on, &["off-c"])).await.unwrap();
    assert_eq!(edges(&on.admin().lock_order(), &["off-a", "off-c"]), []);
    // By default, programs with debug assertions record.
    nest(&LockClient::in_memory(), &["off-d", "off-e"]).await;
    let by_default = edges(&on.admin().lock_order(), &["off-d"]);
    assert_eq!(by_default.len(), usize::from(cfg!(debug_assertions)));
}

#[tokio::test]
async fn the_graph_is_shown_as_text_and_for_graphviz() {
    let client = client();
    nest(&client, &["show-\"a", "show-b"]).await;
    nest(&client, &["show-b", "show-\"a"]).await;
    nest(&client, &["show-b", "show-c"]).await;
    nest(&client, &["show-x:1", "show-x:\"2"]).await;
    nest(&client, &["show-x:\"2", "show-x:1"]).await;
    let order = client.admin().lock_order();
    let dot = order.to_dot();
    assert!(dot.starts_with("digraph lock_order {\n") && dot.ends_with("}\n"), "{dot}");
    // As Graphviz reads an edge.
    let of = |outer: &str, inner: &str| {
        let escaped = |name: &str| name.replace('"', "\\\"");
        let edge = format!("\"{}\" -> \"{}\" [", escaped(outer), escaped(inner));
        let found: Vec<_> = dot.lines().filter_map(|it| it.trim().strip_prefix(&edge)).collect();
        let [attributes] = found[..] else { panic!("{edge}: {dot}") };
        attributes.strip_suffix("];").expect("an end").to_owned()
    };
    assert!(of("show-\"a", "show-b").contains("color=red"));
    assert!(of("show-b", "show-\"a").contains("color=red"));
    let plain = of("show-b", "show-c");
    assert!(!plain.contains("color") && plain.starts_with("label=\"1\""), "{plain}");
    assert!(!of("show-x", "show-x").contains("color"));
    assert!(of("show-x:1", "show-x:\"2").contains("color=red"));
    let text = order.to_string();
    let edge = order.edges.iter().find(|edge| edge.inner == "show-c").unwrap();
    assert!(text.contains(&format!("\"show-c\" at {} inside of \"show-b\" at ", edge.inner_site)));
    assert!(order.inversions.iter().all(|one| text.contains(&one.to_string())));
    assert!(!order.is_full);
}
