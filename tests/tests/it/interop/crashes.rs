//! Holders that are killed: their locks come back to the other side with their leases (S-10, S-19).

use crate::interop::java::Redisson;
use crate::interop::world::*;
use crate::support::kinds;

const LEASE: Duration = secs(1);

/// What is held and, of each, what another asks for: the commands of the Java side.
const HELD: [(&str, &str); 4] =
    [("mutex", "mutex"), ("fair", "fair"), ("read", "write"), ("write", "read")];

/// Of a JVM: it renews all but the permit, to which Redisson gives a lease for once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn locks_of_a_killed_jvm_come_back() {
    let mut world = World::with(Redisson { watchdog: LEASE, ..Redisson::default() }).await;
    for (held, _) in HELD {
        world.java.ask("t", &format!("lock {held} {held}")).await;
    }
    let mut waiting = Vec::new();
    for (held, wanted) in HELD {
        let client = world.client.clone();
        waiting.push(lock_tests::spawn(async move {
            kinds::take(&client, wanted, held, client.options()).await
        }));
    }
    world.java.ask("t", "set permit s 1").await;
    world.java.ask("t", "acquire permit s 1000").await;
    let client = world.client.clone();
    waiting.push(lock_tests::spawn(async move { client.semaphore("s", 1).acquire().await }));
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    world.java.kill();
    for waiting in waiting {
        let guard = timeout(SOON, waiting).await.expect("kept for the dead").unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

// Of Rust processes, which renew all of them.
interop!(locks_of_killed_rust_processes_come_back, async |mut world| {
    let history = tempfile::tempdir().unwrap();
    let mut workers = Vec::new();
    let holds = HELD.map(|(kind, _)| format!("hold {kind} {kind} 1000"));
    for hold in holds.into_iter().chain(["hold semaphore s 1000".to_owned()]) {
        let mut worker = worker(&world.server, history.path(), "1000").await;
        worker.send(&hold);
        let line = worker.next_line(SOON).await;
        assert!(!line.starts_with("error"), "{line}");
        workers.push(worker);
    }
    let mut waiting = Vec::new();
    for (held, wanted) in HELD {
        waiting.push(world.java.begin(held, &format!("lock {wanted} {held}")));
    }
    waiting.push(world.java.begin("s", "acquire permit s 1000"));
    // One for each but the permit, for which Redisson waits without listening while it has an end.
    soon!("all wait", world.server.client().lock_channels().await.len() >= 4);
    for waiting in &waiting {
        assert!(world.java.is_busy(waiting).await);
    }
    for worker in &mut workers {
        worker.sigkill();
    }
    for waiting in waiting {
        world.java.end(waiting, SOON).await;
    }
});
