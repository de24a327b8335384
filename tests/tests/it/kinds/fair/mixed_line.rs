//! Lines in which clients of Redisson and of this library come and go (S-26).

use std::collections::VecDeque;

use crate::kinds::fair::peer::Peer;
use crate::kinds::fair::world::*;

/// How many of each side come and go: at five seconds of drift for each, the places of the last would be minutes ahead.
const ROUNDS: usize = 40;

/// How long the clients of Redisson wait, in milliseconds.
const SHORT: f64 = 5_000.0;

/// How far ahead of the server's clock a place of these lines may be, in milliseconds: the lease of the holder that the
/// first client lined up behind, which Redisson's own script adds; the patience of each client of Redisson; a place of
/// ours, and half of one.
const BOUND: f64 = 30_000.0 + 4.0 * SHORT + 5_000.0 + 2_500.0;

/// One of a line.
enum Waiter<'a> {
    Java(Peer<'a>),
    Rust(Waiting),
}

fn peer<'a>(world: &'a World, name: &'a str, number: usize) -> Peer<'a> {
    let owner = format!("java:{number}").leak();
    Peer { patience: SHORT, ..Peer::new(world, name, owner) }
}

/// The place that ends last, in milliseconds from now.
async fn furthest(world: &World, name: &str) -> f64 {
    let ends = format!("redisson_lock_timeout:{{{name}}}");
    let last: Vec<(String, f64)> =
        world.server.client().get(&["ZREVRANGE", &ends, "0", "0", "WITHSCORES"]).await;
    last.first().map_or(0.0, |(_, score)| *score) - world.now().await
}

async fn is_in_bound(world: &World, name: &str, round: usize) {
    let ahead = furthest(world, name).await;
    assert!(ahead < BOUND, "round {round}: a place is kept for {ahead} ms");
}

/// Lets one of each side line up.
async fn pair<'a>(
    world: &'a World,
    client: &LockClient,
    name: &'a str,
    number: usize,
) -> [Waiter<'a>; 2] {
    let java = peer(world, name, number);
    java.line_up().await;
    let (rust, _) = world.waiter(client, name).await;
    [Waiter::Java(java), Waiter::Rust(rust)]
}

async fn give_up(world: &World, name: &str, waiter: Waiter<'_>) {
    let before = world.queue(name).await.len();
    match waiter {
        Waiter::Java(java) => java.give_up().await,
        Waiter::Rust(waiting) => waiting.abort(),
    }
    soon!("it has left", world.queue(name).await.len() < before);
}

/// S-26: the line is never empty, and no waiter moves past another: all give up, or all but the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_do_not_drift_where_waiters_give_up() {
    for (name, first_stays) in [("g", false), ("m", true)] {
        let world = World::start().await;
        let client = world.client().await;
        let holder = client.fair_mutex(name).lock().await.unwrap();
        let first = if first_stays { Some(world.waiter(&client, name).await.0) } else { None };
        let mut line = VecDeque::from(pair(&world, &client, name, 0).await);
        for round in 1..ROUNDS {
            let order = world.queue(name).await;
            line.extend(pair(&world, &client, name, round).await);
            assert_eq!(world.queue(name).await[..order.len()], order);
            is_in_bound(&world, name, round).await;
            let mut gone: Vec<_> = line.drain(..2).collect();
            // The one of ours first: the client of Redisson behind it then stands behind another one.
            if first_stays {
                gone.reverse();
            }
            for waiter in gone {
                give_up(&world, name, waiter).await;
            }
        }
        holder.release().await.unwrap();
        if let Some(first) = first {
            granted(first).await.release().await.unwrap();
        }
        for waiter in line {
            is_next(waiter).await;
        }
        world.nothing_left(name).await;
    }
}

/// It has the lock, and gives it back.
async fn is_next(waiter: Waiter<'_>) {
    match waiter {
        Waiter::Java(java) => {
            assert!(java.take().await, "{}: not next", java.owner);
            java.unlock().await;
        }
        Waiter::Rust(waiting) => granted(waiting).await.release().await.unwrap(),
    }
}

/// S-26: each gets its turn, in order, and the line is never empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_do_not_drift_where_all_are_granted() {
    let world = World::start().await;
    let client = world.client().await;
    let holder = client.fair_mutex("t").lock().await.unwrap();
    let mut line = VecDeque::from(pair(&world, &client, "t", 0).await);
    holder.release().await.unwrap();
    for round in 1..=ROUNDS {
        if round < ROUNDS {
            line.extend(pair(&world, &client, "t", round).await);
            is_in_bound(&world, "t", round).await;
        }
        for waiter in line.drain(..2) {
            is_next(waiter).await;
        }
    }
    world.nothing_left("t").await;
}

/// S-26: a waiter of ours that is killed in a line that was never empty delays those behind it by one place, and half of a
/// usual one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_killed_in_a_mixed_line_delays_by_one_place() {
    let world = World::start().await;
    let client = world.client().await;
    let holder = client.fair_mutex("k").lock().await.unwrap();
    let mut line = VecDeque::from(pair(&world, &client, "k", 0).await);
    for round in 1..ROUNDS {
        line.extend(pair(&world, &client, "k", round).await);
        for waiter in line.drain(..2) {
            give_up(&world, "k", waiter).await;
        }
    }
    let before = world.queue("k").await.len();
    let history = tempfile::tempdir().unwrap();
    let args = ["locks", &world.server.url(), history.path().to_str().unwrap(), "5000"];
    let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &args, &[]);
    assert_eq!(worker.next_line(4 * PROMPTLY).await, "ready");
    worker.send("queue k 1");
    soon!("in line", world.queue("k").await.len() > before);
    worker.sigkill();
    let killed = Instant::now();
    for waiter in line {
        give_up(&world, "k", waiter).await;
    }
    holder.release().await.unwrap();
    let next = tokio::time::timeout(6 * PROMPTLY, client.fair_mutex("k").lock()).await;
    let next = next.expect("kept for the dead").unwrap();
    // Until the live one looks: a third of a place.
    let most = Duration::from_millis(5_000 + 2_500 + 1_700) + PROMPTLY;
    assert!(killed.elapsed() < patience(most), "{:?}", killed.elapsed());
    next.release().await.unwrap();
    world.nothing_left("k").await;
}

/// A waiter that is told within this has not waited for its next sign of life.
const TOLD: Duration = ms(500);

/// S-15, S-26: `forceUnlock` of Redisson tells the first of the line on a channel of its own, also where no client of
/// Redisson waits: the first of each process listens there, and who becomes the first later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_of_ours_hears_a_release_by_redissons_force() {
    let world = World::start().await;
    // They act only when told.
    let (holding, waiting) =
        (world.client_that_only_listens().await, world.client_that_only_listens().await);
    let java = Peer::new(&world, "f", "java:1");
    for (case, client) in [("another process", &waiting), ("the same process", &holding)] {
        let holder = holding.fair_mutex("f").lock().await.unwrap();
        let (first, _) = world.waiter(client, "f").await;
        let (second, two) = world.waiter(client, "f").await;
        assert_eq!(world.server.pubsub_numsub(&own_channel("f", &two)).await, 0, "{case}");
        java.unlock().await;
        let start = Instant::now();
        let next = granted(first).await;
        assert!(start.elapsed() < patience(TOLD), "{case}: {:?}", start.elapsed());

        world.server.wait_for_subscribers(&own_channel("f", &two), 1).await;
        java.unlock().await;
        let start = Instant::now();
        let last = granted(second).await;
        assert!(start.elapsed() < patience(TOLD), "{case}, behind: {:?}", start.elapsed());
        assert!(next.release().await.is_err() && holder.release().await.is_err(), "{case}");
        last.release().await.unwrap();
        world.nothing_left("f").await;
    }
}
