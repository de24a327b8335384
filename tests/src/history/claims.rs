//! The claims of a history: when which task was sure of which lock.

use std::collections::HashMap;
use std::fmt;

use super::waits::{Wait, Waits};
use super::{Event, History, Op, Share, Stamp, Violation};

/// How far apart the keys of one hold may end, in milliseconds.
const MOST_APART: u64 = 50;

/// The time in which one task was sure that it had a lock: from `start` on, up to `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The lock's name.
    pub object: String,
    /// The process of the task.
    pub process: u32,
    /// The task.
    pub task: u64,
    /// Who else may have the lock meanwhile.
    pub share: Share,
    /// The fencing token of the hold, if it has one.
    pub token: Option<u64>,
    /// When the task asked for the lock.
    pub invoked: Stamp,
    /// When its process asked for the hold in the store: before `invoked` if the hold was handed on inside the process, or
    /// if it is shared by readers of the process.
    pub hold_asked: Stamp,
    /// When the task knew that it had it.
    pub start: Stamp,
    /// When it asked for the release, reported the loss, was killed, or passed the hold's last known deadline. Not after
    /// `start` when the grant came too late to be one.
    pub end: Stamp,
    /// The hold's last known deadline.
    pub valid_until: Option<Stamp>,
    /// What ended the hold, and when; none if nothing did.
    pub over: Option<(Over, Stamp)>,
    /// When the release was confirmed.
    pub released: Option<Stamp>,
    /// What was wrong with the release, if it failed.
    pub refused: Option<Refusal>,
}

/// A release that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// When its task knew.
    pub at: Stamp,
    /// True if the store did not have the hold, false if it gave no answer.
    pub lost: bool,
}

/// What ended a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Its task asked for the release.
    Release,
    /// It reported that it was lost.
    Loss,
    /// Its process was killed.
    Kill,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, process, task, token, start, end, .. } = self;
        write!(f, "{object} by task {task} of process {process} [{start}, {end})")?;
        token.map_or(Ok(()), |token| write!(f, " with token {token}"))
    }
}

impl Claim {
    /// True if the grant came too late to be one.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// True if there is a time at which both were claimed.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// True if the claims are of one lock and may not overlap.
    pub fn excludes(&self, other: &Self) -> bool {
        let both_read = self.share == Share::Readers && other.share == Share::Readers;
        let both_permits =
            matches!((self.share, other.share), (Share::Permits { .. }, Share::Permits { .. }));
        self.object == other.object && !both_read && !both_permits
    }

    pub(super) fn holder(&self) -> Holder {
        (self.process, self.task, self.object.clone())
    }
}

/// A process, a task of it, and a lock: a task has one hold of a lock at a time.
pub(super) type Holder = (u32, u64, String);

/// What the events amount to.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// By their starts.
    pub(super) claims: Vec<Claim>,
    pub(super) waits: Vec<Wait>,
    /// Effects outside of any claim, and events that cannot be.
    pub(super) violations: Vec<Violation>,
}

impl History {
    /// All claims to locks, in the order of their starts.
    pub fn claims(&self) -> Vec<Claim> {
        self.replay().claims
    }

    /// Goes through the events.
    pub(super) fn replay(&self) -> Replay {
        let mut replaying = Replaying::default();
        for event in self.events() {
            replaying.step(event);
        }
        let end = self.events().last().map_or(Stamp::MAX, |last| last.at);
        replaying.finish(end)
    }
}

/// A hold of which the history has not shown the end yet.
struct Open {
    claim: Claim,
    effects: Vec<Event>,
}

#[derive(Default)]
struct Replaying {
    invoked: HashMap<Holder, Stamp>,
    waiting: Waits,
    open: HashMap<Holder, Open>,
    /// The last hold of each holder that asked for the release.
    releasing: HashMap<Holder, usize>,
    done: Replay,
}

impl Replaying {
    fn step(&mut self, event: &Event) {
        let holder = (event.process, event.task, event.object.clone());
        match event.op {
            Op::AcquireInvoked => {
                self.waiting.asks(holder.clone(), event.at);
                self.invoked.insert(holder, event.at);
            }
            Op::NotAcquired => {
                self.waiting.gives_up(&holder, event.at);
                self.invoked.remove(&holder);
            }
            Op::Acquired { share, token, valid_until } => match self.invoked.remove(&holder) {
                Some(invoked) if !self.open.contains_key(&holder) => {
                    self.waiting.is_granted(&holder, event.at);
                    // An answer that the last release has not had by now is none of this hold.
                    self.releasing.remove(&holder);
                    let Event { at: start, process, task, ref object, .. } = *event;
                    let (object, end, over) = (object.clone(), Stamp::MAX, None);
                    let claim = Claim {
                        object,
                        process,
                        task,
                        share,
                        token,
                        invoked,
                        hold_asked: invoked,
                        start,
                        end,
                        valid_until,
                        over,
                        released: None,
                        refused: None,
                    };
                    self.open.insert(holder, Open { claim, effects: Vec::new() });
                }
                _ => self.out_of_place(event),
            },
            Op::Extended { valid_until } => match self.open.get_mut(&holder) {
                Some(Open { claim, .. }) => {
                    claim.valid_until = claim.valid_until.max(Some(valid_until));
                }
                None => self.out_of_place(event),
            },
            Op::Effect | Op::Updated { .. } | Op::Reread { .. } | Op::Entered { .. } => {
                match self.open.get_mut(&holder) {
                    Some(open) => open.effects.push(event.clone()),
                    None => self.done.violations.push(Violation::LateEffect(event.clone())),
                }
            }
            Op::Lost => self.close(&holder, Over::Loss, event.at),
            // A loss ends the claim; the release that follows finds none, and is none.
            Op::ReleaseInvoked => self.close(&holder, Over::Release, event.at),
            Op::Released => {
                if let Some(claim) = self.answered(&holder) {
                    claim.released = Some(event.at);
                }
            }
            Op::NotReleased { lost } => {
                if let Some(claim) = self.answered(&holder) {
                    claim.refused = Some(Refusal { at: event.at, lost });
                }
            }
            Op::Killed => {
                self.waiting.is_killed(event.process, event.at);
                let its = |(process, ..): &&Holder| *process == event.process;
                for holder in self.open.keys().filter(its).cloned().collect::<Vec<_>>() {
                    self.close(&holder, Over::Kill, event.at);
                }
            }
            Op::Endless => self.done.violations.push(Violation::Endless(event.clone())),
            // The server gives each key the time at which it comes to it, so the keys of one hold end as far apart as a busy machine
            // stops it within a script. A part that is left behind has most of a lease left when it is first seen.
            Op::Parts { ends_in, .. } if ends_in <= MOST_APART => {}
            Op::Parts { .. } => self.done.violations.push(Violation::InPart(event.clone())),
            Op::Passed { .. } => self.done.violations.push(Violation::PassedBy(event.clone())),
            Op::Queued { .. }
            | Op::WriteCancelled
            | Op::Busy { .. }
            | Op::FaultBegan { .. }
            | Op::FaultEnded { .. } => {}
        }
    }

    fn out_of_place(&mut self, event: &Event) {
        self.done.violations.push(Violation::OutOfPlace(event.clone()));
    }

    /// Finds the claim whose release is answered now. A release after a loss belongs to no claim.
    fn answered(&mut self, holder: &Holder) -> Option<&mut Claim> {
        let claim = self.releasing.remove(holder)?;
        self.done.claims.get_mut(claim)
    }

    fn close(&mut self, holder: &Holder, over: Over, at: Stamp) {
        if let Some(open) = self.open.remove(holder) {
            self.add(open, Some((over, at)));
        }
    }

    /// Adds a claim that is over, or at the end of the history. Effects after its end are violations.
    fn add(&mut self, Open { mut claim, effects }: Open, over: Option<(Over, Stamp)>) {
        let at = over.map_or(Stamp::MAX, |(_, at)| at);
        claim.end = claim.valid_until.map_or(at, |deadline| deadline.min(at));
        claim.over = over;
        let late = effects.into_iter().filter(|effect| effect.at >= claim.end);
        self.done.violations.extend(late.map(Violation::LateEffect));
        if matches!(over, Some((Over::Release, _))) {
            self.releasing.insert(claim.holder(), self.done.claims.len());
        }
        self.done.claims.push(claim);
    }

    fn finish(mut self, end: Stamp) -> Replay {
        for open in std::mem::take(&mut self.open).into_values() {
            self.add(open, None);
        }
        self.done.claims.sort_by_key(|claim| (claim.start, claim.end));
        join_holds(&mut self.done.claims);
        self.done.waits = self.waiting.finish(end);
        self.done
    }
}

/// How many tokens a process may leave out between two tasks to which it hands a hold on: a task that was given up may have
/// had one. A grant of its own comes so many microseconds later, and its token with it.
const LEFT_OUT: u64 = 8;

/// Finds which claims are of one hold in the store. A process hands a hold on with the next token, and its readers share a
/// token; a grant of its own has a token of a later time.
fn join_holds(claims: &mut [Claim]) {
    let mut by_token: Vec<&mut Claim> = claims.iter_mut().collect();
    by_token.sort_by(|one, other| {
        let key = |it: &Claim| (it.process, it.token, it.start);
        (&one.object, key(one)).cmp(&(&other.object, key(other)))
    });
    let mut before: Option<&Claim> = None;
    for claim in by_token {
        let (object, process) = (&claim.object, claim.process);
        let hold = before.filter(|it| it.object == *object && it.process == process);
        if let Some(hold) = hold
            && let (Some(token), Some(its)) = (claim.token, hold.token)
            && token - its <= 1 + LEFT_OUT
        {
            claim.hold_asked = claim.hold_asked.min(hold.hold_asked);
        }
        before = Some(claim);
    }
}
