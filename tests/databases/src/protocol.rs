//! What a test and a `fence_worker` say to each other, a line of JSON each.

use std::time::Duration;

use lock_tests::history::Stamp;
use serde::{Deserialize, Serialize};

/// What a worker does in each of its rounds: it acquires the lock, reads a balance, and writes one more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The address of the Redis server.
    pub redis: String,
    /// The name of the lock.
    pub name: String,
    /// How long the lock is held without a renewal.
    pub lease: Duration,
    /// The address of the database; its scheme says which one it is.
    pub database: String,
    /// What is run on each new connection.
    pub setup: String,
    /// The statement that begins a transaction.
    pub begin: String,
    /// How it reads and writes.
    pub shape: Shape,
    /// Whether the transactions are fenced.
    pub is_fenced: bool,
}

/// How a worker reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// In one transaction.
    One,
    /// It reads in one transaction, and writes in a second one of the same hold.
    Two,
}

/// A place in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Between the transactions of [`Shape::Two`].
    Between,
    /// The transaction that writes has begun.
    Begun,
    /// Right before the fence, without a halt.
    Fencing,
    /// It has been fenced.
    Fenced,
    /// The balance has been read in it.
    Read,
    /// The balance has been written.
    Written,
    /// Right before the commit, without a halt.
    Committing,
}

impl Shape {
    /// The places of a round, in order.
    pub fn steps(self) -> &'static [Step] {
        match self {
            Self::One => &[
                Step::Begun,
                Step::Fencing,
                Step::Fenced,
                Step::Read,
                Step::Written,
                Step::Committing,
            ],
            Self::Two => &[
                Step::Between,
                Step::Begun,
                Step::Fencing,
                Step::Fenced,
                Step::Written,
                Step::Committing,
            ],
        }
    }
}

impl Step {
    /// True if a worker waits there to be told to go on.
    pub fn is_halt(self) -> bool {
        !matches!(self, Self::Fencing | Self::Committing)
    }
}

/// What a test says to a worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Command {
    /// Create the tables.
    Create,
    /// Do a round, and halt at this place.
    Round(Option<Step>),
    /// Go on after the halt.
    Go,
    /// Tell the balance.
    Tell,
}

/// What a worker says to a test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Report {
    /// It takes commands. Also after [`Command::Create`].
    Ready,
    /// It has acquired the lock.
    Held(u64),
    /// It halts at the place where it should.
    Halted,
    /// `fence` has returned `Ok` to the hold with this token, before this time.
    Fenced(u64, Stamp),
    /// A transaction of the hold with this token was committed, after this time.
    Committed(u64, Stamp),
    /// The database could not put a transaction in order, and the worker begins it again.
    Retried,
    /// The round has ended.
    Ended(Outcome),
    /// The balance, and the tokens of the transactions that wrote it.
    Told(u64, Vec<u64>),
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The balance was written and committed.
    Written,
    /// The database refused a late hold.
    Stale,
    /// The worker failed.
    Failed(String),
}
