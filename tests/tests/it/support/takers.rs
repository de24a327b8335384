//! Clients that take locks over and over while a server is stopped and replaced, and what their history says.
#![allow(dead_code, reason = "each test binary uses a part")]

use lock_tests::history::{Op, Recorder, Rules, Share, Violation};

use crate::prelude::*;

/// More than anything here takes on a busy machine.
const BOUND: Duration = secs(60);

/// The kinds of which one at a time has the lock.
pub(crate) const EXCLUSIVE: [&str; 4] = ["mutex", "fair", "write", "semaphore"];

/// How often a scenario is played: `LOCK_TESTS_ROUNDS` says so, for runs by hand.
pub(crate) fn rounds() -> usize {
    let wanted = std::env::var("LOCK_TESTS_ROUNDS").ok();
    wanted.map_or(2, |wanted| wanted.parse().expect("LOCK_TESTS_ROUNDS is a number"))
}

/// The tasks of all clients, until they are stopped.
pub(crate) struct Takers {
    recorder: Arc<Recorder>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Takers {
    pub(crate) fn new(dir: &Path) -> Self {
        let recorder = Arc::new(Recorder::create(dir).unwrap());
        Self { recorder, stop: watch::Sender::new(false), tasks: Vec::new() }
    }

    /// One task that takes the lock `name` of this kind.
    pub(crate) fn add(&mut self, client: &LockClient, kind: &'static str, name: &str) {
        let (client, name, number) = (client.clone(), name.to_owned(), self.tasks.len() as u64);
        let task = Task { client, kind, name, number };
        self.tasks.push(tokio::spawn(task.run(Arc::clone(&self.recorder), self.stop.subscribe())));
    }

    /// Ends all tasks.
    pub(crate) async fn join(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            timeout(BOUND, task).await.expect("hung").unwrap();
        }
    }
}

/// What two holders at once, or tokens that do not grow, look like in the history.
pub(crate) fn violations(dir: &Path) -> Vec<String> {
    let history = History::load(dir).unwrap();
    let of_two = |it: &Violation| matches!(it, Violation::Overlap(..) | Violation::TokenOrder(..));
    let found = history.check(&Rules::default()).violations.into_iter().filter(of_two);
    found.map(|violation| violation.to_string()).collect()
}

/// Takes a lock over and over.
struct Task {
    client: LockClient,
    kind: &'static str,
    name: String,
    number: u64,
}

impl Task {
    async fn run(self, recorder: Arc<Recorder>, stopped: watch::Receiver<bool>) {
        let record = |op| recorder.record(self.number, &self.name, op);
        while !*stopped.borrow() {
            // The short ones end while the master is stopped, and may be renewed when it goes on.
            let lease = Lease::Watchdog(secs(fastrand::u64(2..7)));
            // And a call that does not wait for long has the connection suspected while others wait on.
            let wait = if fastrand::bool() { Wait::UpTo(BOUND) } else { Wait::UpTo(secs(1)) };
            let options = LockOptions::builder().lease(lease).wait(wait).build().unwrap();
            record(Op::AcquireInvoked);
            let Ok(guard) = take(&self.client, self.kind, &self.name, options).await else {
                record(Op::NotAcquired);
                sleep(ms(20)).await;
                continue;
            };
            let token = Some(guard.token().get());
            record(Op::Acquired { share: Share::Nobody, token, valid_until: None });
            let work = sleep(ms(if fastrand::bool() { 20 } else { 2_000 }));
            let end = if guard.run(work).await.is_ok() { Op::ReleaseInvoked } else { Op::Lost };
            record(end);
            // That it was lost, or that the store was away, says nothing of exclusion.
            let _ = guard.release().await;
        }
    }
}
