//! A hold with a fixed lease learns that its lock was taken away, and is never renewed (S-10, S-12).

use crate::prelude::*;
use crate::support::kinds::{KINDS_AND_SEVERAL, take_one_or_several};
use crate::support::quorum::{quorum_of, servers};

/// Its third is longer than a busy machine keeps anything, and it ends after a test has failed.
const LEASE: Duration = secs(9);

async fn learns_of_it(what: &str, guard: LockGuard) {
    let lost = timeout(SOON, guard.lost()).await.expect("the lease ends");
    let LockError::Lost { cause, .. } = lost else { panic!("{lost:?}") };
    // Not by the deadline, when all learn of it.
    assert_eq!(cause, LossCause::NotOwner, "{what}");
}

/// The names that [`take_one_or_several`] takes.
fn names(kind: &str) -> Vec<String> {
    let several = kind.starts_with("several") || kind == "multi";
    let parts: &[&str] = if several { &["-b"] } else { &[""] };
    parts.iter().map(|part| format!("{kind}{part}")).collect()
}

async fn all_learn_of_it(client: &LockClient, other: &LockClient) {
    let guards = KINDS_AND_SEVERAL.map(async |kind| {
        let guard = take_one_or_several(client, kind, kind, fixed(LEASE)).await.unwrap();
        for name in names(kind) {
            assert!(other.admin().force_release(&name).await.unwrap(), "{kind}");
        }
        learns_of_it(kind, guard).await;
        // What is left of several goes with the guard.
        let next = take_one_or_several(other, kind, kind, waits(SOON)).await;
        next.unwrap_or_else(|error| panic!("{kind}: {error}")).release().await.unwrap();
    });
    join_all(guards).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_hold_learns_that_its_lock_was_taken_away() {
    let (_server, client, other) = world_of_two().await;
    for (client, other) in [crate::support::kinds::two_in_memory(), (client, other)] {
        all_learn_of_it(&client, &other).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_hold_of_a_quorum_learns_that_a_majority_was_taken_away() {
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    let guard = quorum.mutex("q").with(fixed(LEASE)).lock().await.unwrap();
    let kept = quorum.mutex("kept").with(fixed(LEASE)).lock().await.unwrap();
    for server in &servers[..2] {
        soon!("it is there", server.client().exists("q").await);
        server.client().cmd(&["DEL", "q"]).await;
    }
    soon!("it is there", servers[0].client().exists("kept").await);
    servers[0].client().cmd(&["DEL", "kept"]).await;
    learns_of_it("two of three", guard).await;
    assert!(!kept.is_lost(), "two of three have it");
}

/// `max_hold` ends the renewals, and not the interest in the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_whose_renewals_have_ended_learns_that_its_lock_was_taken_away() {
    let (_server, client, other) = world_of_two().await;
    let options = watched(LEASE).max_hold(ms(100));
    let guard = client.mutex("m").with(options).lock().await.unwrap();
    assert!(other.admin().force_release("m").await.unwrap());
    learns_of_it("max_hold", guard).await;
}

/// A key without an end, which an operator made so, is not ended by the question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_leaves_a_key_without_an_end_alone() {
    let (server, client) = world().await;
    let raw = server.client();
    let held = join_all(["mutex", "write", "read"].map(async |kind| {
        let guard = take_named(&client, kind, fixed(LEASE)).await.unwrap();
        raw.cmd(&["PERSIST", kind]).await;
        (kind, guard)
    }));
    let held = held.await;
    // As `renew_plain.lua` and `renew.lua` ask for an owner.
    let asked = async || {
        let calls = server.command_calls().await;
        ["hget", "hexists"].iter().filter_map(|name| calls.get(*name)).sum::<u64>()
    };
    let before = asked().await;
    // Each is asked for within a third of the lease, and then once each third: two of them are never asked for three times in
    // the time in which the other one is not.
    soon!("each was asked for", asked().await >= before + 5);
    for (kind, guard) in held {
        assert!(raw.exists(kind).await && !guard.is_lost(), "{kind}");
        raw.cmd(&["PEXPIRE", kind, "60000"]).await;
        guard.release().await.unwrap();
    }
}
