//! Semaphores among processes: competing, killed (S-30).

use lock_tests::history::{Claim, Recorder};

use crate::prelude::*;

/// How long a worker may take to start and to answer, on a busy machine.
const ANSWER: Duration = secs(30);

struct World {
    server: RedisServer,
    history: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self { server: RedisServer::start().await, history: tempfile::tempdir().unwrap() }
    }

    async fn workers(&self, count: usize) -> Vec<Worker> {
        let dir = self.history.path().to_str().unwrap().to_owned();
        let exe = env!("CARGO_BIN_EXE_lock_worker");
        let args = [&self.server.url(), &dir];
        let mut workers: Vec<_> =
            (0..count).map(|_| Worker::spawn(exe, &args.map(String::as_str), &[])).collect();
        for worker in &mut workers {
            assert_eq!(worker.next_line(ANSWER).await, "ready");
        }
        workers
    }

    /// The most permits that were in use at once, by what their holders knew.
    fn most_at_once(&self, name: &str) -> usize {
        let history = History::load(self.history.path()).unwrap();
        let claims: Vec<Claim> = history.claims();
        let its = claims.iter().filter(|claim| claim.object == name);
        // At one and the same time an end comes first.
        let mut changes: Vec<_> =
            its.flat_map(|claim| [(claim.end, false), (claim.start, true)]).collect();
        changes.sort();
        let (mut now, mut most) = (0, 0);
        for (_, starts) in changes {
            now = if starts { now + 1 } else { now - 1 };
            most = most.max(now);
        }
        most
    }
}

/// The grants of a worker, and how many of them were of several permits.
async fn grants(worker: &mut Worker) -> (u64, u64) {
    let line = worker.next_line(ANSWER).await;
    let numbers: Vec<u64> = line
        .split(' ')
        .skip(1)
        .map(|number| number.parse().unwrap_or_else(|_| panic!("{line}")))
        .collect();
    (numbers[0], numbers[1])
}

/// S-30: eight processes, three tasks each, never more than four permits; everybody is served, also
/// those who want several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_stay_within_the_limit() {
    let world = World::new().await;
    let mut workers = world.workers(8).await;
    for worker in &mut workers {
        worker.send("permits hot 4 3 4000 10000");
    }
    let mut by_worker = Vec::new();
    for worker in &mut workers {
        by_worker.push(grants(worker).await);
    }
    println!("grants and grants of several permits by process: {by_worker:?}");
    let all: u64 = by_worker.iter().map(|(grants, _)| grants).sum();
    for (grants, of_several) in &by_worker {
        assert!(grants * 40 >= all && *of_several > 0, "one process starved: {by_worker:?}");
    }
    let most = world.most_at_once("hot");
    assert!(most <= 4, "{most} permits at once");
    assert!(most >= 3, "only {most} permits at once");
    let raw = world.server.client();
    assert_eq!(raw.get::<i64>(&["GET", "hot"]).await, 4, "permits were lost");
    assert!(!raw.exists("{hot}:timeout").await);
}

/// S-30: two of eight are killed in the middle of it; within a lease all permits are back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_cost_no_permits() {
    let world = World::new().await;
    let lease = secs(1);
    let mut workers = world.workers(8).await;
    for worker in &mut workers {
        worker.send("permits kill 4 3 4000 1000");
    }
    let recorder = Recorder::create(world.history.path()).unwrap();
    for mut worker in workers.split_off(6) {
        tokio::time::sleep(ms(700)).await;
        worker.sigkill();
        recorder.record_kill(worker.id());
    }
    for worker in &mut workers {
        assert!(grants(worker).await.0 > 0);
    }
    let all = LockClient::connect(&world.server.url()).await.unwrap();
    let all = all.semaphore("kill", NonZeroU32::new(4).unwrap());
    let all = timeout(lease * 2, all.acquire_many(all.limit())).await.expect("lost").unwrap();
    all.release().await.unwrap();
    let most = world.most_at_once("kill");
    assert!(most <= 4, "{most} permits at once");
}

/// S-30: kept for as long as their holder lives, and back within a lease of its death, all together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holders_permits_come_back() {
    let world = World::new().await;
    let lease = secs(1);
    let mut workers = world.workers(2).await;
    for worker in &mut workers {
        worker.send("take dead 4 2 1000");
        assert_eq!(worker.next_line(ANSWER).await, "took");
    }
    let client = LockClient::connect(&world.server.url()).await.unwrap();
    let semaphore = client.semaphore("dead", NonZeroU32::new(4).unwrap());
    let until = Instant::now() + 3 * lease;
    while Instant::now() < until {
        assert!(semaphore.try_acquire().await.unwrap().is_none(), "a permit was free");
        tokio::time::sleep(ms(50)).await;
    }
    let two = NonZeroU32::new(2).unwrap();
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.acquire_many(two).await });
    workers.pop().unwrap().sigkill();
    let killed = Instant::now();
    let permit = timeout(ANSWER, waiter).await.expect("never free").unwrap().unwrap();
    let waited = killed.elapsed();
    assert!(waited <= lease + ms(500), "back only after {waited:?}");
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "the survivor's permits went too");
    permit.release().await.unwrap();
}
