//! `on_busy = skip` as scheduled jobs use it: three processes start an annotated job at every tick, and
//! one of them runs it.

use lock_tests::history::{Rules, Stamp};

use crate::prelude::*;

const REPLICAS: usize = 3;
const TICKS: usize = 100;

/// How far apart the replicas start at most, and for how long the spaced job's lock is kept. A start
/// that is due at three quarters of it may be late by the last one.
const AT_LEAST: Duration = ms(90);
const SKEW: Duration = ms(67);

/// How long a worker may take to start and to answer, on a busy machine.
const ANSWER: Duration = secs(30);

/// What a replica made of a tick.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Ran { asked: Stamp, begun: Stamp },
    Skipped { asked: Stamp },
}

struct World {
    server: RedisServer,
    replicas: Vec<Worker>,
    random: fastrand::Rng,
    history: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let server = RedisServer::start().await;
        let at_least = AT_LEAST.as_millis().to_string();
        let history = tempfile::tempdir().unwrap();
        let (exe, dir) = (env!("CARGO_BIN_EXE_worker"), history.path().to_str().unwrap());
        let args = ["tick", &server.url(), dir, &at_least];
        let mut replicas: Vec<_> = (0..REPLICAS).map(|_| Worker::spawn(exe, &args, &[])).collect();
        for replica in &mut replicas {
            assert_eq!(replica.next_line(ANSWER).await, "ready");
        }
        Self { server, replicas, random: fastrand::Rng::with_seed(7), history }
    }

    /// Starts the job everywhere: by one replica at once, by the others up to `skew` later.
    fn tick(&mut self, job: &str, tick: usize, skew: Duration) {
        let skew = u64::try_from(skew.as_micros()).unwrap();
        let first = self.random.usize(..REPLICAS);
        for at in 0..REPLICAS {
            let delay = if at == first { 0 } else { self.random.u64(..=skew) };
            self.replicas[at].send(&format!("{job} {tick} {delay}"));
        }
    }

    /// What each replica says first of that tick.
    async fn outcomes(&mut self, tick: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for replica in &mut self.replicas {
            let line = replica.next_line(ANSWER).await;
            let words: Vec<_> = line.split(' ').collect();
            let time = |at: usize| words[at].parse::<Stamp>().unwrap();
            assert!(words.get(1) == Some(&tick.to_string().as_str()), "at tick {tick}: {line}");
            outcomes.push(match words[0] {
                "ran" => Outcome::Ran { asked: time(2), begun: time(3) },
                "skipped" => Outcome::Skipped { asked: time(2) },
                _ => panic!("at tick {tick}: {line}"),
            });
        }
        outcomes
    }

    /// Waits until that replica has given the lock of that tick back.
    async fn done(&mut self, replica: usize, tick: usize) -> Stamp {
        let line = self.replicas[replica].next_line(ANSWER).await;
        let when = line.strip_prefix(&format!("done {tick} "));
        when.unwrap_or_else(|| panic!("at tick {tick}: {line}")).parse().unwrap()
    }

    /// Checks the history, in which the job ran so often.
    fn assert_clean(&self, runs: usize) {
        let report = History::load(self.history.path()).unwrap().check(&Rules::default());
        report.assert_clean();
        assert_eq!((report.claims, report.losses), (runs, 0), "{report}");
    }
}

/// Which replicas ran it.
fn ran(outcomes: &[Outcome]) -> Vec<usize> {
    let ran = |at: &usize| matches!(outcomes[*at], Outcome::Ran { .. });
    (0..outcomes.len()).filter(ran).collect()
}

/// Started while one of them runs it, the job is run by that one alone, and at the next tick again:
/// S-25 keeps the others out, S-19 lets the next tick in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_100_ticks_runs_on_one_of_three_replicas() {
    let mut world = World::new().await;
    let mut runners = BTreeSet::new();
    for tick in 0..TICKS {
        world.tick("long", tick, ms(3));
        // It lasts until every replica has started it, however long that takes.
        let outcomes = world.outcomes(tick).await;
        let [runner] = ran(&outcomes)[..] else { panic!("tick {tick}: {outcomes:?}") };
        world.replicas[runner].send("end");
        world.done(runner, tick).await;
        runners.insert(runner);
    }
    assert!(runners.len() > 1, "only replica {runners:?} ever ran it");
    world.assert_clean(TICKS);
}

/// Started up to `at_least` apart, a job that is over long before the last start runs once too.
///
/// Whether all starts were within `at_least` is judged by the clock that all processes share: a tick
/// that a busy machine stretched beyond it may run twice, does not count, and is made up for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_least_makes_replicas_run_once_that_start_apart() {
    let mut world = World::new().await;
    let (mut ticks, mut stretched, mut after_the_end, mut all_runs) = (0, 0, 0, 0);
    let mut last: Option<Stamp> = None;
    while ticks < TICKS {
        assert!(stretched <= TICKS, "{stretched} ticks were stretched; is the machine this busy?");
        let tick = ticks + stretched;
        world.tick("spaced", tick, SKEW);
        let outcomes = world.outcomes(tick).await;
        let mut runs = Vec::new();
        for at in ran(&outcomes) {
            let Outcome::Ran { asked, begun } = outcomes[at] else { continue };
            runs.push((begun, asked, world.done(at, tick).await));
        }
        runs.sort();
        all_runs += runs.len();
        let Some((_, _, done)) = runs.first() else { panic!("tick {tick} did not run") };
        after_the_end += outcomes
            .iter()
            .filter(|one| matches!(one, Outcome::Skipped { asked } if asked > done))
            .count();
        for (begun, asked, _) in &runs {
            let apart = last.map_or(Duration::MAX, |last| begun.since(last));
            assert!(apart >= AT_LEAST, "tick {tick}: {apart:?} after the run before: {outcomes:?}");
            last = Some(*asked);
        }
        if runs.len() == 1 {
            ticks += 1;
        } else {
            stretched += 1;
        }
        eventually(ANSWER, "the lock ends by itself", async || {
            !world.server.client().exists("nightly-report").await
        })
        .await;
    }
    // Else it would have run once without `at_least` too.
    assert!(after_the_end >= TICKS / 2, "only {after_the_end} starts came after the job's end");
    world.assert_clean(all_runs);
    eprintln!("{TICKS} ticks, {stretched} stretched; {after_the_end} starts after the job's end");
}

/// What `at_least` is for: without it, a replica that starts after the job's end runs it once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_at_least_a_late_replica_runs_it_again() {
    let mut world = World::new().await;
    for replica in 0..REPLICAS {
        world.replicas[replica].send("short 0 0");
        let line = world.replicas[replica].next_line(ANSWER).await;
        assert!(line.starts_with("ran 0 "), "{line}");
        world.done(replica, 0).await;
    }
    world.assert_clean(REPLICAS);
}
