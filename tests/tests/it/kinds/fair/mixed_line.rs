//! Lines in which clients of Redisson and of this library come and go (S-26).

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

/// S-26: the line is never empty, and no waiter moves past another: all give up, or all but the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_do_not_drift_where_waiters_give_up() {
    for (name, first_stays) in [("g", false), ("m", true)] {
        let world = World::start().await;
        let client = world.client().await;
        let holder = client.fair_mutex(name).lock().await.unwrap();
        let first = if first_stays { Some(world.waiter(&client, name).await.0) } else { None };
        let mut pair: Option<(Peer<'_>, Waiting)> = None;
        for round in 0..ROUNDS {
            let order = world.queue(name).await;
            let owner = format!("java:{round}").leak();
            let java = Peer { patience: SHORT, ..Peer::new(&world, name, owner) };
            java.line_up().await;
            let (rust, last) = world.waiter(&client, name).await;
            assert_eq!(world.queue(name).await[..order.len()], order);
            let ahead = world.score(name, &last).await.unwrap() - world.now().await;
            assert!(ahead < BOUND, "round {round}: a place is kept for {ahead} ms");
            let Some((java, rust)) = pair.replace((java, rust)) else { continue };
            // The one of ours first: the client of Redisson behind it then stands behind another one.
            for is_ours in [first_stays, !first_stays] {
                let before = world.queue(name).await.len();
                if is_ours {
                    rust.abort();
                } else {
                    java.give_up().await;
                }
                soon!("it has left", world.queue(name).await.len() < before);
            }
        }
        holder.release().await.unwrap();
        if let Some(first) = first {
            granted(first).await.release().await.unwrap();
        }
        let (java, rust) = pair.unwrap();
        assert!(java.take().await, "not next");
        java.unlock().await;
        granted(rust).await.release().await.unwrap();
        world.nothing_left(name).await;
    }
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
