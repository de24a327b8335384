//! Beside Redisson's fair lock, whose steps are done here by hand.

use crate::kinds::fair::peer::{PATIENCE, Peer};
use crate::kinds::fair::world::*;

/// S-26: its release wakes our head; ours tells it, on its own channel, and only when it is next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_are_told_both_ways() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let java = Peer::new(&world, "j", "java:1");
    assert!(java.take().await);
    let (first, _) = world.waiter(&client, "j").await;
    let heard = world.server.subscribe_log(&channel("j", java.owner)).await;
    java.unlock().await;
    let guard = granted(first).await;
    java.line_up().await;
    let (behind, owner) = world.waiter(&client, "j").await;
    assert_eq!(world.queue("j").await, [java.owner.to_owned(), owner]);
    assert!(!java.take().await, "it is held");
    assert_eq!(heard.payloads(), [""; 0]);
    guard.release().await.unwrap();
    assert_eq!(heard.wait_for(1, PROMPTLY).await, ["0"]);
    assert!(world.holder("j").await.is_none() && !behind.is_finished(), "overtook");
    assert!(java.take().await);
    // Our place is an hour long here, so it stood the shift.
    java.unlock().await;
    granted(behind).await.release().await.unwrap();
    world.nothing_left("j").await;
}

/// S-26, S-32: behind a hold of Redisson, plain or fair, one keeps a place; what is no hold of one of
/// us is not taken for one, however much its owner looks like it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unmarked_hold_of_redisson_is_waited_for() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    // The last ends as it begins, as a uuid of another version. Others are no uuids at all.
    for (n, owner) in [
        "3b241101-e2bb-4255-8caf-4136c566a962:57",
        "3b241101-e2bb-4255-8caf-4136c566a962:57:6e1f0b6a-0c3e-4d09-9f38-2d4b2f7b3d10",
        "3b241101-e2bb-1255-8caf-4136101142b3:57",
        "java:1",
        "words",
    ]
    .iter()
    .enumerate()
    {
        let name = format!("u{n}");
        let java = Peer::new(&world, &name, owner);
        assert!(java.take().await);
        let (waiting, place) = world.waiter(&client, &name).await;
        assert_eq!(world.queue(&name).await, [place], "{owner}");
        assert!(!waiting.is_finished(), "{owner}: {:?}", waiting.await);
        java.unlock().await;
        granted(waiting).await.release().await.unwrap();
        world.nothing_left(&name).await;
    }
}

/// Moved into the past by a Redisson client that took the lock, our place is put right by the next
/// sign of life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shifted_place_is_put_right() {
    let world = World::start().await;
    let client = world.client_with_places(ms(600)).await;
    let java = Peer::new(&world, "f", "java:1");
    java.line_up().await;
    let (waiting, owner) = world.waiter(&client, "f").await;
    assert!(java.take().await, "not next");
    soon!("the place is put right", {
        let now = world.now().await;
        world.score("f", &owner).await.is_some_and(|score| score > now)
    });
    assert_eq!(world.queue("f").await, [owner]);
    java.unlock().await;
    granted(waiting).await.release().await.unwrap();
    world.nothing_left("f").await;
}

/// S-26: all of ours listen to one channel, and the next behind a client of Redisson that goes first also to its own,
/// before that client can release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_ours_behind_redisson_hears_it() {
    let world = World::start().await;
    // A process that releases the lock wakes a waiter of its own without being told to.
    let (other, client) =
        (world.client_that_only_listens().await, world.client_that_only_listens().await);
    let java = Peer::new(&world, "b", "java:1");
    let holder = other.fair_mutex("b").lock().await.unwrap();
    let (ahead, _) = world.waiter(&other, "b").await;
    java.line_up().await;
    let (first, one) = world.waiter(&client, "b").await;
    let (second, two) = world.waiter(&client, "b").await;
    let own = async |owner: &str| world.server.pubsub_numsub(&own_channel("b", owner)).await;
    let told = world.server.subscribe_log(&channel("b", java.owner)).await;
    holder.release().await.unwrap();
    let guard = granted(ahead).await;
    assert_eq!(own(&two).await, 0);
    guard.release().await.unwrap();
    // The lock is free.
    assert_eq!(told.wait_for(1, PROMPTLY).await, ["0"]);
    soon!("the next of ours listens there too", own(&one).await == 1);
    assert!(java.take().await);
    java.unlock().await;
    granted(first).await.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    world.nothing_left("b").await;
}

/// S-26: a place behind a Redisson client has time for what that will take from it, and neither for the lease of
/// an earlier holder that the client lined up behind, nor for a patience that is not its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_behind_redisson_has_time_for_its_patience_alone() {
    let world = World::start().await;
    let lease = secs(20);
    let client = world.client_with_places(lease).await;
    let extra = async |name: &str, owner: &str| {
        world.score(name, owner).await.unwrap() - world.now().await - 20_000.0
    };
    let long = fixed(secs(120));
    let holder = client.fair_mutex("e").with(long).lock().await.unwrap();
    let [one, two] = ["java:1", "java:2"].map(|owner| Peer::new(&world, "e", owner));
    one.line_up().await;
    two.line_up().await;
    holder.release().await.unwrap();
    assert!(one.take().await, "not next");
    let (_waits, owner) = world.waiter(&client, "e").await;
    let earlier_lease = extra("e", &owner).await;
    assert!((PATIENCE - 10_000.0..=PATIENCE).contains(&earlier_lease), "{earlier_lease}");

    let [one, two] = ["java:1", "java:2"].map(|owner| Peer::new(&world, "p", owner));
    let holder = Peer::new(&world, "p", "java:3");
    assert!(holder.take().await);
    one.line_up().await;
    Peer { patience: 7_000.0, ..two }.line_up().await;
    let (_waits, owner) = world.waiter(&client, "p").await;
    let both = extra("p", &owner).await;
    assert!((PATIENCE - 3_000.0..=PATIENCE + 7_000.0).contains(&both), "{both}");
}

/// S-26: no waiter loses its turn either to a Redisson client with more patience than usual, or with a part of it
/// left only, whatever the lease of the holder is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_waiter_loses_its_turn_to_another_patience() {
    let world = World::start().await;
    let client = world.client_with_places(secs(20)).await;
    for (name, lease, patience, waited, ours_ahead) in [
        ("more", 30, 2.0 * PATIENCE, 0.0, false),
        ("behind-a-lease", 300, PATIENCE, 340_000.0, false),
        ("behind-ours", 300, PATIENCE, 40_000.0, true),
        ("behind-ours-with-more", 30, 3.0 * PATIENCE, 1_000.0, true),
    ] {
        let lease = fixed(secs(lease));
        let holder = client.fair_mutex(name).with(lease).lock().await.unwrap();
        let ahead = if ours_ahead { Some(world.waiter(&client, name).await.0) } else { None };
        let java = Peer { patience, ..Peer::new(&world, name, "java:1") };
        java.line_up().await;
        let since = (-waited).to_string();
        java.cmd(&["ZINCRBY", &java.ends(), &since, java.owner]).await;
        let (first, one) = world.waiter(&client, name).await;
        let (second, two) = world.waiter(&client, name).await;
        holder.release().await.unwrap();
        if let Some(ahead) = ahead {
            granted(ahead).await.release().await.unwrap();
        }
        assert!(java.take().await, "{name}: not next");
        // Whoever lines up sweeps the line first.
        let (third, three) = world.waiter(&client, name).await;
        assert_eq!(world.queue(name).await, [one, two, three], "{name}");
        java.unlock().await;
        for ours in [first, second, third] {
            granted(ours).await.release().await.unwrap();
        }
        world.nothing_left(name).await;
    }
}

/// S-26: when the last of ours leaves, the line stays for as long as Redisson's clients may wait in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_outlives_our_waiters() {
    let world = World::start().await;
    let client = world.client().await;
    let java = Peer::new(&world, "o", "java:1");
    let (ours, holder) = world.waiter_behind_a_holder(&client, "o").await;
    java.line_up().await;
    holder.release().await.unwrap();
    let holder = granted(ours).await;
    let wanted = world.score("o", java.owner).await.unwrap() - world.now().await;
    for key in [java.queue(), java.ends()] {
        let left = world.server.client().pttl(&key).await;
        let long = matches!(left, Ttl::Left(left) if left.as_secs_f64() * 1e3 > wanted);
        assert!(long || left == Ttl::Forever, "{key}: {left:?} of {wanted} ms");
    }
    holder.release().await.unwrap();
    assert!(java.take().await);
    java.unlock().await;
    world.nothing_left("o").await;
}

/// A Redisson client that died in line holds it up until its own time is over, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_redisson_client_is_swept_when_its_time_is_over() {
    let world = World::start().await;
    let client = world.client_with_places(secs(1)).await;
    let java = Peer::new(&world, "d", "java:1");
    java.line_up().await;
    let (waiting, _) = world.waiter(&client, "d").await;
    assert!(world.holder("d").await.is_none() && !waiting.is_finished(), "overtook");
    let soon = (world.now().await + 700.0).round().to_string();
    java.cmd(&["ZADD", &java.ends(), &soon, java.owner]).await;
    granted(waiting).await.release().await.unwrap();
    world.nothing_left("d").await;
}
