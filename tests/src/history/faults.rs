//! The faults of a history: what they explain, and how long it took to recover from them.
//!
//! A fault excuses what it explains, not what happens at its time. A stop excuses late effects of the process that stood still,
//! and of no other. Two holders at once, or a token that is too small, need a loss of data between the two grants; a lock that is
//! free too long, or a recovery that takes too long, is charged with the time in which no other fault acts. Recovery is measured
//! for each process and each lock: that one task went on says nothing about a client that is stuck.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exclusion::permits;
use super::minted::Minted;
use super::report::{Recovery, Rules, Violation};
use super::{Claim, Event, History, May, Op, Refusal, Stamp};

/// The faults of a history, by their beginnings, and the rules that it is checked by.
pub(super) struct Faults<'r> {
    all: Vec<Fault>,
    rules: &'r Rules,
    events: &'r [Event],
    claims: &'r [Claim],
    /// When the machine was busy.
    busy: Vec<(Stamp, Stamp)>,
    minted: Minted<'r>,
}

struct Fault {
    name: String,
    may: May,
    /// The process that it befalls, if that is only one.
    befalls: Option<u32>,
    began: Stamp,
    /// `MAX` if it was not over at the end.
    ended: Stamp,
    /// Until when it may have effects.
    until: Stamp,
}

const ANY: [May; 5] = [May::Delay, May::Stop, May::Repeat, May::ForgetInPart, May::Forget];

/// What ends a hold before its deadline: the store has forgotten it, or its machine slept, which the clock of the history does
/// not count.
const LOSES: [May; 3] = [May::Stop, May::ForgetInPart, May::Forget];

impl Fault {
    /// True if it may have effects at that time.
    fn may_act(&self, at: Stamp) -> bool {
        (self.began..=self.until).contains(&at)
    }

    /// True if it has that process stand still.
    fn stops(&self, process: u32) -> bool {
        self.may == May::Stop && self.befalls(process)
    }

    /// True if it befalls that process, alone or with all others.
    fn befalls(&self, process: u32) -> bool {
        self.befalls.is_none_or(|it| it == process)
    }

    /// True if a part of it lies in that span.
    fn is_within(&self, (from, to): (Stamp, Stamp)) -> bool {
        from.max(self.began) <= to.min(self.ended)
    }
}

impl<'r> Faults<'r> {
    /// Those of a history with these claims.
    pub(super) fn of(history: &'r History, claims: &'r [Claim], rules: &'r Rules) -> Self {
        let (mut faults, mut busy) = (Vec::<Fault>::new(), Vec::new());
        for event in history.events() {
            match &event.op {
                Op::FaultBegan { fault, may, befalls } => faults.push(Fault {
                    name: fault.clone(),
                    may: *may,
                    befalls: *befalls,
                    began: event.at,
                    ended: Stamp::MAX,
                    until: Stamp::MAX,
                }),
                Op::FaultEnded { fault } => {
                    let mut open = faults.iter_mut().filter(|it| it.ended == Stamp::MAX);
                    if let Some(it) = open.find(|it| it.name == *fault) {
                        (it.ended, it.until) = (event.at, event.at.after(rules.aftermath));
                    }
                }
                Op::Busy { since } => busy.push((*since, event.at)),
                _ => {}
            }
        }
        Self {
            busy,
            all: faults,
            rules,
            events: history.events(),
            claims,
            minted: Minted::of(claims),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// True if a fault explains this.
    pub(super) fn allow(&self, violation: &Violation) -> bool {
        let notice = self.rules.notice;
        match violation {
            Violation::Overlap(one, later) => self.forgot_one_of(one, later),
            // The server mints greater tokens even after a loss of data. So it granted the hold with the smaller token first,
            // and the answer came when it had forgotten that hold and the one with the greater token was over. A hold that
            // was handed on, or is shared, was granted when its process asked for it first.
            Violation::TokenOrder(one, next) => self.forgot(next, one, next.start),
            Violation::StaleRelease(one, next) => {
                one.released.is_some_and(|at| self.forgot(one, next, at))
            }
            Violation::TooManyPermits(claims, _) => self.forgot_permits(claims),
            Violation::Crowd(event, _) => self.claim_of(event).is_some_and(|claim| {
                let same = |it: &&Claim| it.object == claim.object && it.overlaps(claim);
                self.claims.iter().filter(same).any(|it| self.forgot_one_of(it, claim))
            }),
            // An update is recorded before it is written. So either of the two may have come late, or a third one did: the one
            // that wrote over the update of the first what the later one read.
            Violation::LostUpdate(one, later) => {
                let Op::Updated { from, .. } = later.op else { return false };
                let mut wrote = self.writers(&later.object, from);
                self.came_late(one)
                    || self.came_late(later)
                    || self.both_held(one, later)
                    || wrote.any(|it| self.came_late(it) || self.both_held(it, one))
            }
            Violation::Changed(event) => {
                let Op::Reread { after, .. } = event.op else { return false };
                let mut wrote = self.writers(&event.object, after);
                wrote.any(|it| self.came_late(it) || self.both_held(it, event))
            }
            // At its next poll.
            Violation::LateEffect(event) => {
                let explains = |it: &Fault| {
                    let span = it.began..=it.ended.after(notice);
                    it.stops(event.process) && span.contains(&event.at)
                };
                self.all.iter().any(explains)
            }
            Violation::LateNotice(claim, at) => claim.valid_until.is_some_and(|deadline| {
                let stops = self.all.iter().filter(|it| it.stops(claim.process));
                outside_of(deadline, *at, stops.map(|it| (it.began, it.ended))) <= notice
            }),
            Violation::Lost(claim) => {
                claim.over.is_some_and(|(_, at)| self.may_end(&LOSES, claim, at))
            }
            Violation::NotReleased(claim, Refusal { at, lost }) => {
                let by = if *lost { &LOSES[..] } else { &ANY };
                self.may_end(by, claim, *at)
            }
            Violation::Overtaken(one, first) => {
                self.any(&ANY, |it| it.may_act(first.start) && one.invoked <= it.ended)
            }
            Violation::LeftFree(_, from, to) => self.rules.free.is_some_and(|most| {
                let acts = self.all.iter().map(|it| (it.began, it.until));
                outside_of(*from, *to, acts.chain(self.busy.iter().copied())) <= most
            }),
            Violation::InPart(event) => self.any(&[May::Forget], |it| it.may_act(event.at)),
            Violation::PassedBy(event) => {
                // Whichever process it befalls: an owner in the queue does not tell its process.
                self.any(&[May::Repeat, May::Forget], |it| it.may_act(event.at))
            }
            Violation::NoToken(_)
            | Violation::Endless(_)
            | Violation::NoRecovery(..)
            | Violation::OutOfPlace(_) => false,
        }
    }

    /// True if one of these faults may have ended the hold by that time.
    fn may_end(&self, by: &[May], claim: &Claim, at: Stamp) -> bool {
        let while_held = |it: &Fault| it.may_act(at) && claim.hold_asked <= it.ended;
        self.any(by, |it| while_held(it) && it.befalls(claim.process))
    }

    /// The claim of a task at the time of this event, or its last one before.
    fn claim_of(&self, event: &Event) -> Option<&Claim> {
        let holder = (event.process, event.task, event.object.clone());
        self.claims.iter().rev().find(|it| it.start <= event.at && it.holder() == holder)
    }

    /// The updates of a lock's value that wrote this one.
    fn writers(&self, object: &str, value: u64) -> impl Iterator<Item = &Event> {
        let wrote = move |it: &&Event| matches!(it.op, Op::Updated { to, .. } if to == value);
        self.events.iter().filter(wrote).filter(move |it| it.object == object)
    }

    /// True if an update may have reached the value after its hold, because the process stood still.
    fn came_late(&self, update: &Event) -> bool {
        let over = self.claim_of(update).and_then(|it| it.over).map_or(Stamp::MAX, |(_, at)| at);
        let during =
            |it: &Fault| it.began <= over && update.at <= it.ended.after(self.rules.notice);
        self.all.iter().any(|it| it.stops(update.process) && during(it))
    }

    /// True if these two events are of holds at the same time, one of which the store had forgotten.
    fn both_held(&self, one: &Event, other: &Event) -> bool {
        let claims = self.claim_of(one).zip(self.claim_of(other));
        claims.is_some_and(|(one, other)| one.overlaps(other) && self.forgot_one_of(one, other))
    }

    /// True if the store may have forgotten one of these holds and then granted the other.
    fn forgot_one_of(&self, one: &Claim, other: &Claim) -> bool {
        let (held, next) = if one.token < other.token { (one, other) } else { (other, one) };
        self.forgot(held, next, one.start.max(other.start))
    }

    fn any(&self, by: &[May], explains: impl Fn(&Fault) -> bool) -> bool {
        self.all.iter().any(|it| by.contains(&it.may) && explains(it))
    }

    /// True if the store may have granted `held`, forgotten it, and then granted `next`, whose token is greater, so that this
    /// happened at that time. The tokens of other holds say when it can have granted these two.
    fn forgot(&self, held: &Claim, next: &Claim, at: Stamp) -> bool {
        self.minted
            .between(held, next)
            .is_some_and(|span| self.any(&[May::Forget], |it| it.may_act(at) && it.is_within(span)))
    }

    /// True if the store may have granted some of these permits, forgotten them, granted others, forgotten these, and so on,
    /// with no more than the limit each time.
    fn forgot_permits(&self, claims: &[Claim]) -> bool {
        let Some(at) = claims.iter().map(|it| it.start).max() else { return false };
        let mut by_token: Vec<_> = claims.iter().collect();
        by_token.sort_by_key(|it| it.token);
        let (_, limit) = permits(claims);
        let within = |part: &[&Claim]| permits(part.iter().copied()).0 <= limit;
        // Whether so many of the first ones may have been granted, and all been forgotten before the next one was.
        let mut explained = vec![true];
        for end in 1..=by_token.len() {
            let begins =
                |from: usize| from == 0 || self.forgot(by_token[from - 1], by_token[from], at);
            let ends_a_part =
                |from: usize| explained[from] && within(&by_token[from..end]) && begins(from);
            explained.push((0..end).any(ends_a_part));
        }
        explained[by_token.len()]
    }

    /// For each fault, the process that waited longest after it until it had a lock again, or until the end of the history.
    /// The time that other faults last does not count.
    pub(super) fn recoveries(&self, history: &History) -> BTreeMap<String, Recovery> {
        let mut slowest: BTreeMap<String, Recovery> = BTreeMap::new();
        for fault in self.all.iter().filter(|it| it.ended < Stamp::MAX) {
            for ((process, object), (from, to)) in first_waits(history, fault.ended) {
                let others = self.all.iter().map(|it| (it.began, it.ended));
                let took = outside_of(from, to, others);
                let known = slowest.get(&fault.name).map(|it| it.took);
                if known.is_none_or(|known| known < took) {
                    let recovery = Recovery { process, object: object.to_owned(), took };
                    slowest.insert(fault.name.clone(), recovery);
                }
            }
        }
        slowest
    }
}

/// How much of a time is in none of these spans.
fn outside_of(from: Stamp, to: Stamp, spans: impl Iterator<Item = (Stamp, Stamp)>) -> Duration {
    let mut spans: Vec<_> = spans.collect();
    spans.sort();
    let (mut outside, mut at) = (Duration::ZERO, from);
    for (began, ended) in spans {
        outside += began.min(to).since(at);
        at = at.max(ended.min(to));
    }
    outside + to.since(at)
}

/// For each process and lock that it asked for: from when to when it waited for it after that time, or until the history ends.
/// A process that is killed waits no more.
fn first_waits(history: &History, after: Stamp) -> BTreeMap<(u32, &str), (Stamp, Stamp)> {
    let mut asking: BTreeMap<(u32, u64, &str), Stamp> = BTreeMap::new();
    let mut waits: BTreeMap<(u32, &str), (Stamp, Option<Stamp>)> = BTreeMap::new();
    for event in history.events() {
        let task = (event.process, event.task, &*event.object);
        let whose = (event.process, &*event.object);
        match event.op {
            Op::AcquireInvoked => {
                asking.insert(task, event.at);
                if event.at >= after {
                    waits.entry(whose).or_insert((event.at, None));
                }
            }
            Op::Acquired { .. } => {
                asking.remove(&task);
                if event.at >= after {
                    // A task that asked before has waited since that time.
                    waits.entry(whose).or_insert((after, None)).1.get_or_insert(event.at);
                }
            }
            Op::NotAcquired => drop(asking.remove(&task)),
            Op::Killed => {
                asking.retain(|(process, ..), _| *process != event.process);
                waits.retain(|(process, _), wait| *process != event.process || wait.1.is_some());
            }
            _ => {}
        }
    }
    // Those that asked before and have no answer to this day.
    for (process, _, object) in asking.iter().filter(|(_, at)| **at < after).map(|it| it.0) {
        waits.entry((*process, object)).or_insert((after, None));
    }
    let end = history.events().last().map_or(after, |event| event.at);
    waits
        .into_iter()
        .map(|(whose, (asked, granted))| (whose, (asked, granted.unwrap_or(end))))
        .collect()
}
