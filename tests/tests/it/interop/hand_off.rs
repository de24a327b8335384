//! How long a release takes to reach the waiter on the other side.

use crate::interop::world::*;
use crate::support::fair_line::waiter_channel;
use crate::support::kinds;

const ROUNDS: u32 = 15;

/// S-15: they are told, both ways, of every kind that one holds at a time: no task polls here within
/// the hour, and the leases are half a minute long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn releases_reach_the_other_side() {
    let mut world = World::start().await;
    for kind in ["mutex", "fair", "write", "read"] {
        let (mut to_rust, mut to_java) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            to_rust.push(java_to_rust(&mut world, kind).await);
            to_java.push(rust_to_java(&mut world, kind).await);
        }
        let (to_rust, to_java) = (figures(to_rust), figures(to_java));
        println!("{kind}: Java to Rust {to_rust}; Rust to Java {to_java}");
    }
}

async fn java_to_rust(world: &mut World, kind: &str) -> Duration {
    // A reader waits for a writer, all others for their like.
    let holder = if kind == "read" { "write" } else { kind };
    world.java.ask("t", &format!("lock {holder} {kind}")).await;
    let (client, of) = (world.client.clone(), kind.to_owned());
    let waiting = lock_tests::spawn(async move { take(&client, &of).await });
    listens(world, kind).await;
    assert!(!waiting.is_finished());
    let from = Instant::now();
    let unlocking = world.java.begin("t", &format!("unlock {holder} {kind}"));
    let guard = got(waiting).await;
    let took = from.elapsed();
    world.java.end(unlocking, AT_ONCE).await;
    guard.release().await.unwrap();
    took
}

async fn rust_to_java(world: &mut World, kind: &str) -> Duration {
    let holder = if kind == "read" { "write" } else { kind };
    let options = watchdog(secs(30));
    let guard = kinds::take(&world.client, holder, kind, options).await.unwrap();
    let waiting = world.java.begin("t", &format!("lock {kind} {kind}"));
    listens(world, kind).await;
    world.java.is_parked("t").await;
    let from = Instant::now();
    guard.release().await.unwrap();
    world.java.end(waiting, AT_ONCE).await;
    let took = from.elapsed();
    world.java.ask("t", &format!("unlock {kind} {kind}")).await;
    took
}

async fn take(client: &lock_runtime::LockClient, kind: &str) -> Result<LockGuard, LockError> {
    kinds::take(client, kind, kind, client.options()).await
}

/// Waits until one waiter listens.
async fn listens(world: &World, kind: &str) {
    let channel = match kind {
        "mutex" => lock_channel(kind),
        // Each of Redisson's waiters and each of our clients has its own.
        "fair" => {
            let queue = format!("redisson_lock_queue:{{{kind}}}");
            lock_tests::eventually(AT_ONCE, "in line", async || {
                world.server.client().get::<u32>(&["LLEN", &queue]).await == 1
            })
            .await;
            let head: String = world.server.client().get(&["LINDEX", &queue, "0"]).await;
            waiter_channel(kind, &head)
        }
        _ => rw_channel(kind),
    };
    world.server.wait_for_subscribers(&channel, 1).await;
}

fn figures(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    format!("{:.1?} (median), {:.1?} (longest)", took[took.len() / 2], took[took.len() - 1])
}
