//! How processes share a key that all of them want all the time, compared with one server (S-14).

use lock_tests::eventually::slowness;

use crate::prelude::*;
use crate::support::rivals::{Rivalry, Turns, compete};
use crate::support::writers::reads_beside_writers;
use crate::topology::cluster::world::{client, shared};

fn rivalry(kind: &'static str, name: &'static str) -> Rivalry {
    let (hold, time) = (ms(2), secs(3));
    Rivalry { kind, name, options: LockOptions::default(), hold, time }
}

async fn both(tasks: [usize; 2], rivalry: Rivalry) -> (Turns, Turns) {
    let server = RedisServer::start().await;
    let url = server.url();
    let one = [LockClient::connect(&url).await.unwrap(), LockClient::connect(&url).await.unwrap()];
    let on_one: Vec<_> = one.into_iter().zip(tasks).collect();
    let on_one = compete(&on_one, rivalry.clone()).await;
    let cluster = shared().await;
    let many = [client(cluster).await, client(cluster).await];
    let in_cluster: Vec<_> = many.into_iter().zip(tasks).collect();
    (on_one, compete(&in_cluster, rivalry).await)
}

/// S-14: notices have a connection of their own here, which the head start of others does not depend on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_releases_are_followed_by_another_process() {
    for kind in ["mutex", "write", "multi"] {
        let (on_one, in_cluster) = both([1, 1], rivalry(kind, "turns")).await;
        for (turns, place) in [(&on_one, "server"), (&in_cluster, "cluster")] {
            println!(
                "{kind}, {place}: {}% of {} handed over, passed over {:?}, longest wait {:?}",
                turns.handed_over(),
                turns.order.len(),
                [0, 1].map(|client| turns.passed_over(client)),
                turns.longest_wait
            );
        }
        assert!(in_cluster.handed_over() * 4 >= on_one.handed_over() * 3, "{kind}");
    }
}

/// S-14, S-30: two processes and one permit; each gets at least a quarter of an equal share, or less on a busy machine: the head
/// start of the others has two milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_goes_round() {
    for tasks in [[1, 1], [4, 1]] {
        let hold = ms(10);
        let slower = slowness(4.0) as usize;
        let (on_one, in_cluster) =
            both(tasks, Rivalry { hold, ..rivalry("permit", "permits") }).await;
        for (turns, place) in [(&on_one, "server"), (&in_cluster, "cluster")] {
            let counts = [0, 1].map(|client| turns.count(client));
            let longest = &turns.longest_wait;
            println!("{place}: {counts:?} with {tasks:?} tasks, longest wait {longest:?}");
            assert!(
                counts.iter().all(|count| count * 8 * slower >= turns.order.len()),
                "{place}: {counts:?}"
            );
        }
    }
}

/// S-27: readers that waited for a write go before the next writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_have_their_turns_beside_steady_writers() {
    let cluster = shared().await;
    let writers = [client(cluster).await, client(cluster).await];
    reads_beside_writers(&writers, &[client(cluster).await, writers[0].clone()], "phases").await;
}
