//! The names in use, on every store (S-35).

use lock_runtime::store::NamesCursor;

use super::world::{World, acquire, key, names, on_every_store, pages, set};
use crate::prelude::*;

on_every_store!(
    every_kind_is_listed,
    what_nobody_holds_is_not_listed,
    names_of_waiters_are_listed,
    all_pages_have_all_names,
    a_prefix_means_itself,
    a_cursor_belongs_to_its_store,
);

fn targets() -> Vec<(&'static str, Arc<Target>)> {
    vec![
        ("k:mutex", Target::mutex(key("k:mutex"))),
        ("k:fair", Target::fair(key("k:fair"))),
        ("k:read", Target::read(key("k:read"))),
        ("k:write", Target::write(key("k:write"))),
        ("k:semaphore", Target::semaphore(key("k:semaphore"), some(3))),
        ("k:{tag}:semaphore", Target::semaphore(key("k:{tag}:semaphore"), some(3))),
        ("{k}", Target::semaphore(key("{k}"), some(3))),
        ("k:{tag}", Target::mutex(key("k:{tag}"))),
    ]
}

async fn every_kind_is_listed(world: &World) {
    let (a, b) = world.two();
    assert_eq!(names(b, "").await, set([""; 0]));
    let mut holds = Vec::new();
    for (_, target) in targets() {
        let owner = acquire(a, &target).await.expect("it is free");
        holds.push((target, owner));
    }
    acquire(a, &Target::mutex(key("other"))).await.expect("it is free");
    let kinds = set(targets().into_iter().map(|(name, _)| name));
    let mut all = kinds.clone();
    all.insert("other".to_owned());
    assert_eq!(names(b, "").await, all);
    assert_eq!(names(b, "k:").await, kinds.iter().filter(|it| *it != "{k}").cloned().collect());
    assert_eq!(names(b, "{k").await, set(["{k}"]));
    for (target, owner) in holds {
        a.release(ReleaseRequest::new(target, owner, SOON)).await.unwrap();
    }
    // Of all that they leave, their counters among it, nothing is a name.
    assert_eq!(names(b, "").await, set(["other"]));
}

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
}

/// A lock that is waited for is in use, whether it is held or not.
async fn names_of_waiters_are_listed(world: &World) {
    let (a, b) = world.two();
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
    let targets: Vec<_> = expected.iter().map(|name| Target::mutex(key(name))).collect();
    let taken = targets.iter().map(|target| acquire(a, target));
    assert!(join_all(taken).await.iter().all(Option::is_some));
    acquire(a, &Target::mutex(key("q:1"))).await.expect("it is free");
    let (found, pages) = pages(b, "p:").await;
    assert_eq!(set(found), expected);
    assert!(pages > 4, "{pages} pages");
    // A page can be asked for again.
    let first = b.names("p:", NamesCursor::start(), SOON).await.unwrap();
    let next = first.next.expect("more follow");
    let twice = [b.names("p:", next.clone(), SOON).await, b.names("p:", next, SOON).await];
    let [one, two] = twice.map(|page| page.unwrap().names.into_iter().collect::<BTreeSet<_>>());
    assert_eq!(one, two);
}

async fn a_prefix_means_itself(world: &World) {
    let (a, b) = world.two();
    let all = ["a*b", "axb", "a?c", "ayc", "a[d]", "ad", r"a\e", "ae", "a%", "ä", "A*b"];
    for name in all {
        acquire(a, &Target::mutex(key(name))).await.expect("it is free");
        let semaphore = Target::semaphore(key(&format!("{name}:s")), some(1));
        acquire(a, &semaphore).await.expect("it is free");
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

async fn a_cursor_belongs_to_its_store(world: &World) {
    let (a, _) = world.two();
    let error = a.names("", NamesCursor::at("elsewhere"), SOON).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Config);
    assert!(error.to_string().contains("NamesCursor::start"), "{error}");
}
