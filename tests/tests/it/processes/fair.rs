//! One line for several processes: waiting, killed, stopped (S-26).

use lock_tests::history::{Recorder, Rules};

use crate::prelude::*;

/// How long a worker may take to start and to answer, on a busy machine.
const ANSWER: Duration = secs(30);

const NAME: &str = "k";
const QUEUE: &str = "redisson_lock_queue:{k}";
const ENDS: &str = "redisson_lock_timeout:{k}";

/// The number of the worker's task that keeps the lock.
const KEEPER: u64 = 1 << 32;

struct World {
    server: RedisServer,
    history: tempfile::TempDir,
    recorder: Recorder,
    waiter_lease: Duration,
    /// Who lined up, in order: process and task.
    arrivals: Vec<(u32, u64)>,
}

impl World {
    async fn new(waiter_lease: Duration) -> Self {
        let history = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(history.path()).unwrap();
        let (server, arrivals) = (RedisServer::start().await, Vec::new());
        Self { server, history, recorder, waiter_lease, arrivals }
    }

    async fn worker(&self) -> Worker {
        let dir = self.history.path().to_str().unwrap();
        let lease = self.waiter_lease.as_millis().to_string();
        let exe = env!("CARGO_BIN_EXE_worker");
        let mut worker = Worker::spawn(exe, &["locks", &self.server.url(), dir, &lease], &[]);
        assert_eq!(worker.next_line(ANSWER).await, "ready");
        worker
    }

    /// The lock, taken by this process.
    async fn taken(&self) -> LockGuard {
        let builder = LockClient::builder().waiter_lease(self.waiter_lease);
        let client = builder.connect(&self.server.url()).await.unwrap();
        client.fair_mutex(NAME).lock().await.unwrap()
    }

    async fn queue(&self) -> Vec<String> {
        self.server.client().get(&["LRANGE", QUEUE, "0", "-1"]).await
    }

    /// One more waiter in that process, in line by the time this returns.
    async fn line_up(&mut self, worker: &mut Worker) {
        let before: usize = self.server.client().get(&["LLEN", QUEUE]).await;
        let task = self.arrivals.len() as u64;
        worker.send(&format!("queue {NAME} {task}"));
        eventually(ANSWER, "one more is in line", async || {
            self.server.client().get::<usize>(&["LLEN", QUEUE]).await > before
        })
        .await;
        self.recorder.record_place(worker.id(), task, NAME, task);
        self.arrivals.push((worker.id(), task));
    }

    /// Who got the lock, in the order of the tokens.
    fn grants(&self) -> Vec<(u32, u64)> {
        let history = History::load(self.history.path()).unwrap();
        history.check(&Rules::default()).assert_clean();
        let mut claims = history.claims();
        assert!(claims.is_sorted_by_key(|claim| claim.token), "tokens and times differ");
        claims.sort_by_key(|claim| claim.token);
        claims.iter().map(|claim| (claim.process, claim.task)).collect()
    }
}

async fn done(worker: &mut Worker, tasks: usize) {
    for _ in 0..tasks {
        let line = worker.next_line(ANSWER).await;
        assert!(line.starts_with("done "), "{line}");
    }
}

/// S-26: 200 waiters of four processes get it in the order in which they came: no overtakes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_of_four_processes_keep_their_order() {
    let mut world = World::new(secs(3)).await;
    let guard = world.taken().await;
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(world.worker().await);
    }
    for number in 0..200 {
        // In turn, and now and then the same one twice.
        let which = (number + number / 7) % 4;
        world.line_up(&mut workers[which]).await;
    }
    let queue = world.queue().await;
    assert_eq!(queue.len(), 200);
    let uuid = |at: usize| queue[at].split(':').next().unwrap();
    for at in 0..200 {
        let same = (0..200).filter(|other| uuid(*other) == uuid(at));
        let here = (0..200).filter(|other| world.arrivals[*other].0 == world.arrivals[at].0);
        assert!(same.eq(here), "the queue is not in the order of arrival");
    }
    guard.release().await.unwrap();
    for worker in &mut workers {
        let waiters = world.arrivals.iter().filter(|(process, _)| *process == worker.id()).count();
        done(worker, waiters).await;
    }
    let grants = world.grants();
    let overtakes = grants.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    assert_eq!((overtakes, &grants), (0, &world.arrivals));
    nothing_left(&world.server, "k").await;
}

/// S-26: with the holder and the head dead nobody asks more than a sign of life takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_head_of_a_free_lock_does_not_make_others_busy() {
    let mut world = World::new(secs(4)).await;
    let (mut dying, mut living) = (world.worker().await, world.worker().await);
    dying.send(&format!("hold fair {NAME} 300"));
    assert!(dying.next_line(ANSWER).await.starts_with("held "));
    world.line_up(&mut dying).await;
    for _ in 0..30 {
        world.line_up(&mut living).await;
    }
    dying.sigkill();
    eventually(ANSWER, "the hold has ended", async || !world.server.client().exists(NAME).await)
        .await;
    world.server.reset_stats().await;
    tokio::time::sleep(secs(2)).await;
    let calls = world.server.command_calls().await;
    // Several may share a script; each renews one place.
    let asked = calls.get("zadd").copied().unwrap_or_default();
    // 30 waiters, each every 1.33 s, and once when the hold ended.
    assert!(asked <= 30 * 3, "{asked} requests in two seconds");
    assert_eq!(world.grants(), [(dying.id(), KEEPER)], "the head was overtaken in its time");
    done(&mut living, 30).await;
    assert_eq!(world.grants()[1..], world.arrivals[1..]);
    nothing_left(&world.server, "k").await;
    eprintln!("30 waiters behind a dead head: {asked} requests in two seconds");
}

/// S-26: stopped for longer than its waiter lease, a waiter has lost its place; it lines up anew and
/// has one place, not two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_waiter_lines_up_anew() {
    let mut world = World::new(ms(600)).await;
    let guard = world.taken().await;
    let (mut stopped, mut other) = (world.worker().await, world.worker().await);
    world.line_up(&mut stopped).await;
    world.line_up(&mut other).await;
    let [first, second] = &world.queue().await[..] else { panic!("not two in line") };
    world.recorder.record_stop("a waiter stands still", stopped.id());
    stopped.sigstop();
    eventually(ANSWER, "its place is gone", async || world.queue().await.iter().eq([second])).await;
    stopped.sigcont();
    eventually(ANSWER, "it is in line anew", async || {
        world.queue().await.iter().eq([second, first])
    })
    .await;
    let places: u64 = world.server.client().get(&["ZCARD", ENDS]).await;
    assert_eq!(places, 2);
    guard.release().await.unwrap();
    done(&mut other, 1).await;
    done(&mut stopped, 1).await;
    assert_eq!(world.grants(), [world.arrivals[1], world.arrivals[0]]);
    nothing_left(&world.server, "k").await;
}

/// S-26: told that its turn has come and stopped, it costs the others its lease; when it goes on, it
/// lines up behind whoever has the lock by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_was_told_and_is_stopped_is_passed() {
    let mut world = World::new(secs(1)).await;
    let guard = world.taken().await;
    let (mut stopped, mut other) = (world.worker().await, world.worker().await);
    world.line_up(&mut stopped).await;
    world.line_up(&mut other).await;
    world.recorder.record_stop("the head stands still", stopped.id());
    stopped.sigstop();
    guard.release().await.unwrap();
    let start = Instant::now();
    done(&mut other, 1).await;
    assert!(start.elapsed() < patience(2 * world.waiter_lease), "{:?}", start.elapsed());
    stopped.sigcont();
    done(&mut stopped, 1).await;
    assert_eq!(world.grants(), [world.arrivals[1], world.arrivals[0]]);
    nothing_left(&world.server, "k").await;
}
