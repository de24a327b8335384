//! Clients that take locks over and over while a server is stopped and replaced, and what their history says.

use lock_tests::history::{May, Recorder, Rules, Share, Violation};
use lock_tests::witness::Witness;

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
        self.tasks
            .push(lock_tests::spawn(task.run(Arc::clone(&self.recorder), self.stop.subscribe())));
    }

    /// Records that a fault is injected from now on, which may delay tasks and so have holds lost.
    pub(crate) fn fault_begins(&self, fault: &str) {
        self.recorder.record_fault(fault, May::Delay);
    }

    /// Records that the fault is over.
    pub(crate) fn fault_ends(&self, fault: &str) {
        self.recorder.record_end_of_fault(fault);
    }

    /// Ends all tasks.
    pub(crate) async fn join(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            timeout(BOUND, task).await.expect("hung").unwrap();
        }
    }
}

/// What the history of takers says that must not have happened. Not that a hold was lost, or that its release found none: a master
/// that is replaced takes along what its replicas had not got yet, and the holder is told.
pub(crate) fn violations(dir: &Path) -> Vec<String> {
    let report = History::load(dir).unwrap().check(&Rules::default());
    assert!(report.claims > 0 && report.faults > 0, "{report}");
    let told = |it: &&Violation| matches!(it, Violation::Lost(_) | Violation::NotReleased(..));
    report.violations.iter().filter(|it| !told(it)).map(ToString::to_string).collect()
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
        let witness = Witness::new(&recorder, self.number, &self.name, Share::Exclusive);
        while !*stopped.borrow() {
            // The short ones end while the master is stopped, and may be renewed when it goes on.
            let lease = Lease::Watchdog(secs(fastrand::u64(2..7)));
            // And a call that does not wait for long has the connection suspected while others wait on.
            let wait = if fastrand::bool() { Wait::UpTo(BOUND) } else { Wait::UpTo(secs(1)) };
            let options = LockOptions::new().lease(lease).wait(wait);
            let acquire = take(&self.client, self.kind, &self.name, options);
            let Ok(mut held) = witness.acquire(acquire).await else {
                sleep(ms(20)).await;
                continue;
            };
            held.work(ms(if fastrand::bool() { 20 } else { 2_000 })).await;
            // That it was lost, or that the store was away, is in the history.
            let _ = held.release().await;
        }
    }
}
