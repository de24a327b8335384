//! What `connect_cluster` says that a user needs.

use super::kinds::until_heard;
use super::world::{End, POLL_CAP, PROMPTLY};
use crate::prelude::*;
use crate::topology::permissions::block;

fn documented() -> Vec<String> {
    let not_here = ["+subscribe", "+unsubscribe", "+publish"];
    let mut words = block("ACL SETUSER locks");
    words.retain(|word| !not_here.contains(&&**word));
    words.extend(block("and\n    ///\n    /// ```text"));
    words
}

// For every kind: take, wait, be told, inspect, give back; across a move of the slot as well.
test_with!(they_are_enough, RedisCluster::start(), async |cluster| {
    let rules = documented();
    assert!(rules.iter().any(|word| word == "+spublish"), "{rules:?}");
    for at in 0..3 {
        let mut words = vec!["ACL", "SETUSER", "locks"];
        words.extend(rules.iter().map(String::as_str));
        cluster.node(at).client().cmd(&words).await;
    }
    let url = format!("redis://locks:pw@127.0.0.1:{}", cluster.node(0).port());
    let connect = || LockClient::builder().poll_cap(POLL_CAP).connect_cluster([url.clone()]);
    let (a, b) = (connect().await.unwrap(), connect().await.unwrap());
    let lease = Lease::Watchdog(secs(3));
    let options = leased(lease);
    for (kind, is) in KINDS {
        let name = format!("{{may}}:{kind}");
        let other = if kind == "read" { "write" } else { kind };
        let held: LockGuard = take(&a, other, &name, options.clone()).await.unwrap();
        let waiting = lock_tests::spawn({
            let (b, name, options) = (b.clone(), name.clone(), options.clone());
            async move { take(&b, kind, &name, options).await }
        });
        until_heard(&cluster, &name).await;
        let slot = cluster.slot(&name).await;
        let from = cluster.owner(slot).await;
        let to = (from + 1) % 3;
        // What is there already is renewed there, by ASKING.
        let half_way = async {
            let end = End::of(&held);
            soon!("it is renewed", end.has_moved(&held) || kind != "mutex");
        };
        cluster.move_slot(slot, to, &[&name], half_way).await;
        until_heard(&cluster, &name).await;
        let start = Instant::now();
        held.release().await.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        let guard = waiting.await.unwrap().unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        assert!(start.elapsed() < patience(PROMPTLY), "{kind}: {:?}", start.elapsed());
        assert_eq!(a.admin().inspect(&name).await.unwrap().kind, Some(is));
        guard.release().await.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
    }
});
