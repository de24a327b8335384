//! Semaphores among processes: competing, killed (S-30).

use lock_tests::history::{Rules, Share};

use crate::support::workers::{Workers as World, numbers};

/// Checks that no rule was violated, and returns the most permits that were in use at once, by what their holders knew.
fn most_at_once(world: &World) -> u32 {
    let history = world.history();
    history.check(&Rules::default()).assert_clean();
    // At one and the same time an end comes first.
    let mut changes = Vec::new();
    for claim in history.claims() {
        let Share::Permits { count, .. } = claim.share else { panic!("{claim}") };
        changes.extend([(claim.end, false, count), (claim.start, true, count)]);
    }
    changes.sort();
    let (mut now, mut most) = (0, 0);
    for (_, starts, count) in changes {
        now = if starts { now + count } else { now - count };
        most = most.max(now);
    }
    most
}

/// S-30: eight processes, three tasks each, never more than four permits; every task is served, also
/// those who want several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_stay_within_the_limit() {
    let world = World::new().await;
    let mut workers = world.workers::<8>().await;
    for worker in &mut workers {
        worker.send("permits hot 4 3 4000 10000");
    }
    let mut by_worker = Vec::new();
    for worker in &mut workers {
        by_worker.push(numbers::<2>(worker).await);
    }
    println!("grants and grants of several permits by process: {by_worker:?}");
    let all: u64 = by_worker.iter().map(|[grants, _]| grants).sum();
    for [grants, of_several] in &by_worker {
        assert!(grants * 40 >= all && *of_several > 0, "one process starved: {by_worker:?}");
    }
    let most = most_at_once(&world);
    assert!(most <= 4, "{most} permits at once");
    assert!(most >= 3, "only {most} permits at once");
    let raw = world.server.client();
    assert_eq!(raw.get::<i64>(&["GET", "hot"]).await, 4, "permits were lost");
    assert!(!raw.exists("{hot}:timeout").await);
}
