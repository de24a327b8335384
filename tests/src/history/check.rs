//! The claims of a history, and the sweeps over them. All take O(n log n).

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{Event, History, Op, Stamp};

/// The time in which one task was sure that it had a lock: from `start` on, up to `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The lock's name.
    pub object: String,
    /// The process of the task.
    pub process: u32,
    /// The task.
    pub task: u64,
    /// The fencing token of the hold, if it has one.
    pub token: Option<u64>,
    /// When the task asked for the lock.
    pub invoked: Stamp,
    /// When the task knew that it had it.
    pub start: Stamp,
    /// When it asked for the release, reported the loss, was killed, or passed the hold's last
    /// known deadline. Not after `start` when the grant came too late to be one.
    pub end: Stamp,
}

/// Something that must not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Two claims of one lock at the same time.
    Overlap(Claim, Claim),
    /// The second hold came after the first, but its token is not greater.
    TokenOrder(Claim, Claim),
    /// A hold without a token.
    NoToken(Claim),
    /// An effect at a time at which its task had no claim to the lock.
    LateEffect(Event),
    /// An event that cannot follow those before it: a grant on top of a hold of the same task, a
    /// grant or a deadline out of nowhere. The history was recorded wrongly.
    OutOfPlace(Event),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(one, other) => write!(f, "held at the same time: {one} and {other}"),
            Self::TokenOrder(one, next) => write!(f, "tokens out of order: {one}, then {next}"),
            Self::NoToken(claim) => write!(f, "no token: {claim}"),
            Self::LateEffect(event) => write!(f, "an effect outside any claim: {event}"),
            Self::OutOfPlace(event) => write!(f, "cannot be at this place: {event}"),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, process, task, token, start, end, .. } = self;
        write!(f, "{object} by task {task} of process {process} [{start}, {end})")?;
        token.map_or(Ok(()), |token| write!(f, " with token {token}"))
    }
}

impl Claim {
    fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// A hold of which the history has not shown the end yet.
struct OpenClaim {
    claim: Claim,
    valid_until: Option<Stamp>,
    effects: Vec<Event>,
}

/// Who holds what: at most one hold at a time.
type Holder = (u32, u64, String);

impl History {
    /// All claims to locks, in the order of their starts.
    pub fn claims(&self) -> Vec<Claim> {
        self.replay().0
    }

    /// The rule that no two claims to one lock overlap (C1), and that the history is well-formed.
    ///
    /// For each claim that starts during others, the one of them that ends last is reported.
    pub fn exclusion(&self) -> Vec<Violation> {
        let (claims, mut violations) = self.replay();
        violations.retain(|violation| matches!(violation, Violation::OutOfPlace(_)));
        let mut last: HashMap<&str, &Claim> = HashMap::new();
        for claim in claims.iter().filter(|claim| !claim.is_empty()) {
            let longest = last.entry(&claim.object).or_insert(claim);
            if *longest != claim && claim.start < longest.end {
                violations.push(Violation::Overlap(longest.clone(), claim.clone()));
            }
            if longest.end < claim.end {
                *longest = claim;
            }
        }
        violations
    }

    /// The rule that tokens grow (C3): a hold has a greater one than every hold of the same lock
    /// that had ended before it began, or that had begun before it was asked for.
    pub fn token_order(&self) -> Vec<Violation> {
        let (claims, _) = self.replay();
        let mut by_object: BTreeMap<&str, Vec<(u64, &Claim)>> = BTreeMap::new();
        let mut violations = Vec::new();
        for claim in &claims {
            match claim.token {
                Some(token) => by_object.entry(&claim.object).or_default().push((token, claim)),
                None => violations.push(Violation::NoToken(claim.clone())),
            }
        }
        for holds in by_object.into_values() {
            // A grant that came too late to be a claim says nothing about when the hold was.
            let timely: Vec<_> =
                holds.iter().copied().filter(|(_, claim)| !claim.is_empty()).collect();
            let mut found = out_of_order(&timely, |claim| claim.end, |claim| claim.start);
            found.extend(out_of_order(&holds, |claim| claim.start, |claim| claim.invoked));
            found.extend(of_equal_token(holds));
            found.sort_by_key(|(_, later)| later.start);
            found.dedup_by_key(|(_, later)| *later);
            let pairs = found.into_iter();
            violations.extend(pairs.map(|(a, b)| Violation::TokenOrder(a.clone(), b.clone())));
        }
        violations
    }

    /// The rule that a task has an effect only during its own claim (C2).
    ///
    /// A process that is stopped between the check of its deadline and the effect breaks it, and
    /// no lease can prevent that; a fenced resource refuses such an effect.
    pub fn late_effects(&self) -> Vec<Violation> {
        let (_, mut violations) = self.replay();
        violations.retain(|violation| matches!(violation, Violation::LateEffect(_)));
        violations
    }

    /// Goes through the events: the claims, by their starts, and what was wrong on the way.
    fn replay(&self) -> (Vec<Claim>, Vec<Violation>) {
        let mut invoked: HashMap<Holder, Stamp> = HashMap::new();
        let mut open: HashMap<Holder, OpenClaim> = HashMap::new();
        let mut closed = Vec::new();
        let mut violations = Vec::new();
        for event in self.events() {
            let holder = (event.process, event.task, event.object.clone());
            match event.op {
                Op::AcquireInvoked => drop(invoked.insert(holder, event.at)),
                Op::NotAcquired => drop(invoked.remove(&holder)),
                Op::Acquired { token, valid_until } => match invoked.remove(&holder) {
                    Some(invoked) if !open.contains_key(&holder) => {
                        let claim = OpenClaim::new(event, invoked, token, valid_until);
                        open.insert(holder, claim);
                    }
                    _ => violations.push(Violation::OutOfPlace(event.clone())),
                },
                Op::Extended { valid_until } => match open.get_mut(&holder) {
                    Some(claim) => claim.valid_until = claim.valid_until.max(Some(valid_until)),
                    None => violations.push(Violation::OutOfPlace(event.clone())),
                },
                Op::Effect => match open.get_mut(&holder) {
                    Some(claim) => claim.effects.push(event.clone()),
                    None => violations.push(Violation::LateEffect(event.clone())),
                },
                // A loss ends the claim; the release that follows finds none, and is none.
                Op::Lost | Op::ReleaseInvoked => {
                    closed.extend(open.remove(&holder).map(|claim| (claim, event.at)));
                }
                Op::Released => {}
                Op::Killed => {
                    let its = open.extract_if(|(process, ..), _| *process == event.process);
                    closed.extend(its.map(|(_, claim)| (claim, event.at)));
                }
            }
        }
        closed.extend(open.into_values().map(|claim| (claim, Stamp::MAX)));
        let mut claims: Vec<Claim> =
            closed.into_iter().map(|(claim, at)| claim.close(at, &mut violations)).collect();
        claims.sort_by_key(|claim| (claim.start, claim.end));
        (claims, violations)
    }
}

impl OpenClaim {
    fn new(
        granted: &Event,
        invoked: Stamp,
        token: Option<u64>,
        valid_until: Option<Stamp>,
    ) -> Self {
        let Event { at: start, process, task, ref object, .. } = *granted;
        let object = object.clone();
        let claim = Claim { object, process, task, token, invoked, start, end: Stamp::MAX };
        Self { claim, valid_until, effects: Vec::new() }
    }

    /// The claim, which ended at `at` unless its deadline came first. Effects after its end are
    /// added to the violations.
    fn close(self, at: Stamp, violations: &mut Vec<Violation>) -> Claim {
        let end = self.valid_until.map_or(at, |deadline| deadline.min(at));
        let late = self.effects.into_iter().filter(|effect| effect.at >= end);
        violations.extend(late.map(Violation::LateEffect));
        Claim { end, ..self.claim }
    }
}

/// For each hold whose token is smaller than that of a hold that was `done` by the time it `began`:
/// the one of those with the greatest token, and the hold.
fn out_of_order<'a>(
    holds: &[(u64, &'a Claim)],
    done: impl Fn(&Claim) -> Stamp,
    began: impl Fn(&Claim) -> Stamp,
) -> Vec<(&'a Claim, &'a Claim)> {
    let mut by_done = holds.to_vec();
    by_done.sort_by_key(|(_, claim)| done(claim));
    let mut by_began = holds.to_vec();
    by_began.sort_by_key(|(_, claim)| began(claim));
    let mut earlier = by_done.into_iter().peekable();
    let mut greatest: Option<(u64, &Claim)> = None;
    let mut found = Vec::new();
    for (token, claim) in by_began {
        while let Some(hold) = earlier.next_if(|(_, hold)| done(hold) <= began(claim)) {
            if greatest.is_none_or(|(most, _)| most < hold.0) {
                greatest = Some(hold);
            }
        }
        if let Some((most, hold)) = greatest
            && token < most
        {
            found.push((hold, claim));
        }
    }
    found
}

/// Each two holds with one token.
fn of_equal_token(mut holds: Vec<(u64, &Claim)>) -> Vec<(&Claim, &Claim)> {
    holds.sort_by_key(|(token, claim)| (*token, claim.start));
    let pairs = holds.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    pairs.map(|pair| (pair[0].1, pair[1].1)).collect()
}
