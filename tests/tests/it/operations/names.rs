//! The names in use, on every store (S-35).

use lock_runtime::store::NamesCursor;

use super::world::{World, acquire, acquire_all, key, names, on_every_store, pages, set};
use crate::prelude::*;

on_every_store!(
    every_kind_is_listed,
    what_nobody_holds_is_not_listed,
    all_pages_have_all_names,
    a_prefix_means_itself,
);

async fn every_kind_is_listed(world: &World) {
    let (a, b) = world.two();
    assert_eq!(names(b, "").await, set([""; 0]));
    let targets = [
        Target::mutex(key("k:mutex")),
        Target::fair(key("k:fair")),
        Target::read(key("k:read")),
        Target::write(key("k:write")),
        Target::semaphore(key("k:semaphore"), some(3)),
        Target::semaphore(key("k:{tag}:semaphore"), some(3)),
        Target::mutex(key("k:{tag}")),
        Target::semaphore(key("{k}"), some(3)),
    ];
    let owners = acquire_all(a, &targets).await;
    acquire(a, &Target::mutex(key("other"))).await.expect("it is free");
    let kinds = "k:mutex k:fair k:read k:write k:semaphore k:{tag}:semaphore k:{tag}";
    assert_eq!(names(b, "k:").await, set(kinds.split(' ')));
    assert_eq!(names(b, "{k").await, set(["{k}"]));
    assert_eq!(names(b, "").await, set(kinds.split(' ').chain(["{k}", "other"])));
    for (target, owner) in targets.into_iter().zip(owners) {
        a.release(ReleaseRequest::new(target, owner, SOON)).await.unwrap();
    }
    // Of all that they leave, their counters among it, nothing is a name.
    assert_eq!(names(b, "").await, set(["other"]));
}

/// A lock that is waited for is in use, whether it is held or not.
async fn what_nobody_holds_is_not_listed(world: &World) {
    let (a, b) = world.two();
    let latch = Target::latch(key("latch"));
    a.latch(&latch, LatchRequest::SetCount(3), SOON).await.unwrap();
    a.raise_token(&Target::mutex(key("counted")), FencingToken::new(1), SOON).await.unwrap();
    for name in ["forced", "{forced}"] {
        acquire(a, &Target::mutex(key(name))).await.expect("it is free");
        assert!(a.force_release(&key(name), SOON).await.unwrap());
    }
    assert_eq!(names(b, "").await, set([""; 0]));
    for (name, is_held) in [("q", false), ("s:{t}", false), ("{r}", true), ("u", true)] {
        let target = Target::fair(key(name));
        acquire(a, &target).await.expect("it is free");
        assert!(acquire(b, &target).await.is_none(), "it is held");
        if !is_held {
            assert!(a.force_release(&key(name), SOON).await.unwrap());
        }
    }
    assert_eq!(names(b, "").await, set(["q", "s:{t}", "{r}", "u"]));
}

async fn all_pages_have_all_names(world: &World) {
    let (a, b) = world.two();
    let expected = set((0..1_500).map(|number| format!("p:{number}")));
    acquire_all(a, &expected.iter().map(|name| Target::mutex(key(name))).collect::<Vec<_>>()).await;
    acquire(a, &Target::mutex(key("q:1"))).await.expect("it is free");
    let (found, pages) = pages(b, "p:").await;
    assert_eq!(set(found), expected);
    assert!(pages > 4, "{pages} pages");
    // A page can be asked for again, at the store that has given the cursor.
    let first = b.names("p:", NamesCursor::start(), SOON).await.unwrap();
    let next = first.next.expect("more follow");
    let twice = [b.names("p:", next.clone(), SOON).await, b.names("p:", next, SOON).await];
    let [one, two] = twice.map(|page| page.unwrap().names.into_iter().collect::<BTreeSet<_>>());
    assert_eq!(one, two);
    let error = a.names("", NamesCursor::at("elsewhere"), SOON).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(error.to_string().contains("NamesCursor::start"), "{error}");
}

async fn a_prefix_means_itself(world: &World) {
    let (a, b) = world.two();
    let all = ["a*b", "axb", "a?c", "ayc", "a[d]", "ad", r"a\e", "ae", "a%", "ä", "A*b"];
    for name in all {
        let semaphore = Target::semaphore(key(&format!("{name}:s")), some(1));
        acquire_all(a, &[Target::mutex(key(name)), semaphore]).await;
    }
    for (prefix, name) in [
        ("a*", "a*b"),
        ("a?", "a?c"),
        ("a[", "a[d]"),
        ("a[d]", "a[d]"),
        (r"a\", r"a\e"),
        ("ä", "ä"),
    ] {
        assert_eq!(names(b, prefix).await, set([name.to_owned(), format!("{name}:s")]), "{prefix}");
    }
    assert_eq!(names(b, "*").await, set([""; 0]));
    assert_eq!(names(b, "").await.len(), 2 * all.len());
}
