//! Worker processes that add to one balance under one lock, while they are stopped and killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select_all;
use lock_database_tests::protocol::{Command, Job, Outcome, Report, Shape, Step};
use lock_tests::Worker;
use lock_tests::history::Stamp;
use tokio::time::{Instant, timeout_at};

/// More than anything here takes on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// What happens to a worker when it halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGSTOP until a later holder has the lock, and for one more lease unless all others have ended.
    Stop,
    /// SIGKILL.
    Kill,
}

/// One worker, and where it is in its round.
struct Member {
    worker: Worker,
    held: Option<u64>,
    is_halted: bool,
    outcome: Option<Outcome>,
    is_killed: bool,
}

/// What the workers did.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) rounds: usize,
    /// How often each fault befell a worker at each step.
    pub(crate) faults: BTreeMap<(Step, Fault), usize>,
    stale: usize,
    retried: usize,
    /// Rounds that cannot have been committed are in neither.
    written: BTreeSet<u64>,
    unknown: BTreeSet<u64>,
    fenced: Vec<(u64, Stamp)>,
    committed: Vec<(u64, Stamp)>,
    balance: usize,
    entries: BTreeSet<u64>,
}

impl Tally {
    /// How many committed additions are missing in the balance.
    pub(crate) fn lost(&self) -> usize {
        self.entries.len() - self.balance
    }

    /// How many pairs of transactions were committed in the wrong order: one that began its commit after the fence of a later hold had
    /// returned.
    // S-37.
    pub(crate) fn late(&self) -> usize {
        let later = |token, sent| {
            self.fenced.iter().filter(move |(newer, at)| *newer > token && *at < sent).count()
        };
        self.committed.iter().map(|(token, sent)| later(*token, *sent)).sum()
    }

    /// Checks that the database has what the workers reported: each addition of which a worker knows that it was committed, and
    /// beyond these only such of which no worker knows.
    pub(crate) fn check_entries(&self) {
        let missing: Vec<_> = self.written.difference(&self.entries).collect();
        assert!(missing.is_empty(), "committed, and not in the database: {missing:?}");
        let known = self.written.union(&self.unknown).copied().collect();
        let strange: Vec<_> = self.entries.difference(&known).collect();
        assert!(strange.is_empty(), "in the database, and not committed: {strange:?}");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        for (fault, times) in &other.faults {
            *self.faults.entry(*fault).or_default() += times;
        }
        self.stale += other.stale;
        self.retried += other.retried;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, faults, stale, retried, .. } = self;
        write!(f, "{rounds} rounds, {stale} stale, {retried} retried, {faults:?}")
    }
}

/// Each fault at each step.
pub(crate) fn plans(shape: Shape) -> impl Iterator<Item = (Step, Fault)> {
    let steps = shape.steps().iter();
    steps.flat_map(|step| [Fault::Stop, Fault::Kill].map(|fault| (*step, fault)))
}

/// The workers of one lock.
pub(crate) struct Crew {
    job: Job,
    members: Vec<Member>,
    tally: Tally,
}

impl Crew {
    /// Starts the workers, and creates their tables.
    pub(crate) async fn start(job: Job, size: usize) -> Self {
        let mut members = vec![Member::start(&job).await];
        members[0].say(Command::Create);
        let created = members[0].report().await;
        assert!(matches!(created, Report::Ready), "{created:?}");
        while members.len() < size {
            members.push(Member::start(&job).await);
        }
        Self { job, members, tally: Tally::default() }
    }

    /// Lets the workers do at least so many rounds, and stops and kills each of them at each step. Returns what they did.
    pub(crate) async fn work(mut self, rounds: usize) -> Tally {
        let plans: Vec<_> = plans(self.job.shape).map(Some).chain([None]).collect();
        let size = self.members.len();
        for turn in 0.. {
            // Once each plan had each victim, this goes on until there were enough rounds.
            if self.tally.rounds >= rounds && turn >= plans.len() * size {
                break;
            }
            self.turn(plans[turn % plans.len()], turn / plans.len() % size).await;
        }
        let teller = &mut self.members[0];
        teller.say(Command::Tell);
        match teller.report().await {
            Report::Told(balance, tokens) => {
                self.tally.balance = usize::try_from(balance).expect("a small number");
                self.tally.entries = tokens.into_iter().collect();
            }
            report => panic!("no balance: {report:?}"),
        }
        self.tally
    }

    /// A round of each worker. The victim is the first one that holds the lock.
    async fn turn(&mut self, plan: Option<(Step, Fault)>, victim: usize) {
        for member in &mut self.members {
            (member.held, member.is_halted, member.outcome) = (None, false, None);
        }
        self.tally.rounds += self.members.len();
        self.members[victim].say(Command::Round(plan.map(|(step, _)| step)));
        let has_lock = self.until(BOUND, |members| members[victim].held.is_some()).await;
        assert!(has_lock, "{plan:?} for {victim}: {:?}", self.members);
        for (index, member) in self.members.iter_mut().enumerate() {
            if index != victim {
                member.say(Command::Round(None));
            }
        }
        if let Some((step, fault)) = plan {
            self.harm(victim, step, fault).await;
        }
        let have_ended = self.until(BOUND, |members| members.iter().all(Member::has_ended)).await;
        assert!(have_ended, "{plan:?} for {victim}: {:?}", self.members);
        self.judge(plan, victim);
        if self.members[victim].is_killed {
            self.members[victim] = Member::start(&self.job).await;
        }
    }

    async fn harm(&mut self, victim: usize, step: Step, fault: Fault) {
        let is_there =
            |members: &[Member]| members[victim].is_halted || members[victim].has_ended();
        assert!(self.until(BOUND, is_there).await, "{step:?} for {victim}: {:?}", self.members);
        // On a busy machine it may have been late before it came there, and refused.
        if self.members[victim].has_ended() {
            return;
        }
        *self.tally.faults.entry((step, fault)).or_default() += 1;
        if fault == Fault::Kill {
            self.members[victim].worker.sigkill();
            self.members[victim].is_killed = true;
            // What it wrote before its end.
            while let Some(line) = self.members[victim].worker.try_next_line(BOUND).await {
                self.members[victim].hear(&line, &mut self.tally);
            }
            return;
        }
        self.members[victim].worker.sigstop();
        let held = self.members[victim].held;
        let is_later = |members: &[Member]| members.iter().any(|member| member.held > held);
        assert!(self.until(BOUND, is_later).await, "the lease of a stopped holder does not end");
        // Whether later holders get on while it stands still depends on what it has locked in the database.
        let others_have_ended = |members: &[Member]| {
            let mut others = members.iter().enumerate().filter(|(index, _)| *index != victim);
            others.all(|(_, member)| member.has_ended())
        };
        self.until(self.job.lease, others_have_ended).await;
        self.members[victim].worker.sigcont();
        if step.is_halt() {
            self.members[victim].say(Command::Go);
        }
    }

    /// Counts how the rounds ended.
    fn judge(&mut self, plan: Option<(Step, Fault)>, victim: usize) {
        for (index, member) in self.members.iter().enumerate() {
            match (&member.outcome, member.held) {
                (Some(Outcome::Written), Some(token)) => {
                    self.tally.written.insert(token);
                }
                (Some(Outcome::Stale), _) => self.tally.stale += 1,
                (None, Some(token)) if index == victim => {
                    // Where a worker does not halt, it may come as far as its commit.
                    if plan.is_some_and(|(step, _)| !step.is_halt()) {
                        self.tally.unknown.insert(token);
                    }
                }
                (outcome, _) => panic!("a round ended with {outcome:?}"),
            }
        }
    }

    /// Hears the workers until the condition is met. Returns whether it was within the bound.
    async fn until(&mut self, bound: Duration, met: impl Fn(&[Member]) -> bool) -> bool {
        let deadline = Instant::now() + bound;
        while !met(&self.members) {
            let running = self.members.iter_mut().enumerate().filter(|(_, it)| !it.has_ended());
            let lines = running.map(|(index, member)| {
                Box::pin(async move { (index, member.worker.next_line(2 * BOUND).await) })
            });
            let Ok(((index, line), ..)) = timeout_at(deadline, pin!(select_all(lines))).await
            else {
                return false;
            };
            self.members[index].hear(&line, &mut self.tally);
        }
        true
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, is_halted, outcome, is_killed, .. } = self;
        write!(f, "held {held:?}, halted {is_halted}, outcome {outcome:?}, killed {is_killed}")
    }
}

impl Member {
    async fn start(job: &Job) -> Self {
        let job = serde_json::to_string(job).expect("a job is JSON");
        let worker = Worker::spawn(env!("CARGO_BIN_EXE_fence_worker"), &[&job], &[]);
        let (held, is_halted, outcome, is_killed) = (None, false, None, false);
        let mut member = Self { worker, held, is_halted, outcome, is_killed };
        let ready = member.report().await;
        assert!(matches!(ready, Report::Ready), "{ready:?}");
        member
    }

    fn has_ended(&self) -> bool {
        self.outcome.is_some() || self.is_killed
    }

    fn say(&mut self, command: Command) {
        self.worker.send(&serde_json::to_string(&command).expect("a command is JSON"));
    }

    async fn report(&mut self) -> Report {
        read(&self.worker.next_line(BOUND).await)
    }

    /// Notes what the worker reports.
    fn hear(&mut self, line: &str, tally: &mut Tally) {
        match read(line) {
            Report::Held(token) => self.held = Some(token),
            Report::Halted => self.is_halted = true,
            Report::Fenced(token, at) => tally.fenced.push((token, at)),
            Report::Committed(token, sent) => tally.committed.push((token, sent)),
            Report::Retried => tally.retried += 1,
            Report::Ended(outcome) => self.outcome = Some(outcome),
            report => panic!("{report:?} in a round"),
        }
    }
}

fn read(line: &str) -> Report {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("no report: `{line}`: {error}"))
}
