//! Over histories drawn at random: what is planted against a rule is found, wherever it is, and nothing else is there.

use super::rules::{fault, span};
use super::*;

/// What is planted.
#[derive(Debug, Clone, Copy)]
enum Plant {
    Nothing,
    /// C2: two tasks have read the same value.
    LostUpdate,
    /// C4: a hold is lost before its deadline.
    Loss,
    /// C4: a hold that has ended is released when another has the lock.
    StaleRelease,
    /// C4: a hold is not there when it is released, before its deadline.
    NotReleased,
    /// C5: a reader has the lock beside a writer.
    ReaderBesideWriter,
    /// C5: a value changes while a reader has the lock.
    Changed,
    /// C6: one permit too many.
    Permits,
    /// C6: one more is counted on another server than the claims are.
    Crowd,
    /// C7: two waiters have each other's place.
    Overtaking,
    /// C7: the server lets a waiter go before another.
    PassedBy,
    /// C8: a lock is free for long while a task waits.
    LeftFree,
    /// C9: a key without an end.
    Endless,
    /// C10: a holder learns late that its deadline has passed.
    LateNotice,
    /// C11: a task waits after a fault.
    NoRecovery,
    /// C12: a lock of several names is held in part.
    InPart,
}

const PLANTS: [Plant; 16] = [
    Plant::Nothing,
    Plant::LostUpdate,
    Plant::Loss,
    Plant::StaleRelease,
    Plant::NotReleased,
    Plant::ReaderBesideWriter,
    Plant::Changed,
    Plant::Permits,
    Plant::Crowd,
    Plant::Overtaking,
    Plant::PassedBy,
    Plant::LeftFree,
    Plant::Endless,
    Plant::LateNotice,
    Plant::NoRecovery,
    Plant::InPart,
];

/// More than a lock is free in a history of [`fair_holds`].
const LONG: u64 = 1_000;

/// The events of holds that queue in their order, by hold.
fn queued(holds: &[Hold]) -> Vec<Vec<Event>> {
    let events = |(place, hold): (u64, &Hold)| {
        let mut events = hold.events();
        events.insert(1, event(hold.invoked, hold.holder, Op::Queued { place }));
        events
    };
    (0..).zip(holds).map(events).collect()
}

/// Where [`queued`] has the grant and the end of a hold.
const GRANT: usize = 2;
const END: usize = 4;

impl Plant {
    fn is_found(self, found: &Violation) -> bool {
        match self {
            Self::Nothing => false,
            Self::LostUpdate => matches!(found, Violation::LostUpdate(..)),
            Self::Loss => matches!(found, Violation::Lost(_)),
            Self::StaleRelease => matches!(found, Violation::StaleRelease(..)),
            Self::NotReleased => matches!(found, Violation::NotReleased(..)),
            Self::ReaderBesideWriter => matches!(found, Violation::Overlap(..)),
            Self::Changed => matches!(found, Violation::Changed(_)),
            Self::Permits => matches!(found, Violation::TooManyPermits(..)),
            Self::Crowd => matches!(found, Violation::Crowd(..)),
            Self::Overtaking => matches!(found, Violation::Overtaken(..)),
            Self::PassedBy => matches!(found, Violation::PassedBy(_)),
            Self::LeftFree => matches!(found, Violation::LeftFree(..)),
            Self::Endless => matches!(found, Violation::Endless(_)),
            Self::LateNotice => matches!(found, Violation::LateNotice(..)),
            Self::NoRecovery => matches!(found, Violation::NoRecovery(..)),
            Self::InPart => matches!(found, Violation::InPart(_)),
        }
    }

    /// The history with this planted at a hold that has one after it, and the rules that it is checked by.
    fn put(self, holds: &[Hold], here: usize) -> (Vec<Event>, Rules) {
        let (hold, next) = (&holds[here], &holds[here + 1]);
        let mut by_hold = queued(holds);
        let mut rules = Rules { notice: span(7), free: Some(span(LONG)), ..Rules::default() };
        let mut more = Vec::new();
        match self {
            Self::Nothing => {}
            Self::LostUpdate => {
                let update = Op::Updated { from: 3, to: 4 };
                more.push(event(hold.held.start, hold.holder, update.clone()));
                more.push(event(next.held.start, next.holder, update));
            }
            Self::Loss => {
                by_hold[here][END].op = Op::Lost;
                by_hold[here][END].at = at(hold.held.end - 1);
                let until = Some(at(hold.held.end));
                by_hold[here][GRANT].op = acquired(Some(hold.token), until);
            }
            Self::StaleRelease => {
                let late = next.held.start + 1;
                let until = Some(at(hold.held.end));
                by_hold[here][GRANT].op = acquired(Some(hold.token), until);
                by_hold[here][END] = event(late, hold.holder, Op::ReleaseInvoked);
                more.push(event(late, hold.holder, Op::Released));
                rules.notice = span(LONG);
            }
            Self::NotReleased => {
                let until = Some(at(hold.held.end + 9));
                by_hold[here][GRANT].op = acquired(Some(hold.token), until);
                by_hold[here][END] = event(hold.held.end, hold.holder, Op::ReleaseInvoked);
                more.push(event(hold.held.end + 1, hold.holder, Op::NotReleased { lost: true }));
            }
            Self::ReaderBesideWriter => {
                let reader = 20;
                more.push(event(hold.invoked, reader, Op::AcquireInvoked));
                let token = Some(hold.token);
                let read = Op::Acquired { share: Share::Readers, token, valid_until: None };
                more.push(event(hold.held.start, reader, read));
                more.push(event(hold.held.end, reader, Op::ReleaseInvoked));
            }
            Self::Changed => {
                let read = Op::Reread { before: 3, after: 4 };
                more.push(event(hold.held.start, hold.holder, read));
            }
            Self::Permits | Self::Crowd => {
                let holders = if matches!(self, Self::Crowd) { 20..21 } else { 20..23 };
                let inside = if matches!(self, Self::Crowd) { 3 } else { 2 };
                for holder in holders {
                    let share = Share::Permits { count: 1, limit: 2 };
                    let token = Some(u64::from(holder));
                    let permit = Op::Acquired { share, token, valid_until: None };
                    let ops = [Op::AcquireInvoked, permit, Op::Entered { inside }];
                    let nanos = u64::from(holder);
                    let named =
                        |op| Event { object: "permits".to_owned(), ..event(nanos, holder, op) };
                    more.extend(ops.map(named));
                }
            }
            Self::Overtaking => {
                by_hold[here][1].op = Op::Queued { place: here as u64 + 1 };
                by_hold[here + 1][1].op = Op::Queued { place: here as u64 };
            }
            Self::LeftFree => {
                by_hold.truncate(here + 2);
                for moved in &mut by_hold[here + 1][GRANT..] {
                    moved.at = moved.at.after(span(2 * LONG));
                    if let Op::Acquired { valid_until: Some(until), .. } = &mut moved.op {
                        *until = until.after(span(2 * LONG));
                    }
                }
            }
            Self::PassedBy => {
                let (waiter, by) = (hold.holder.to_string(), next.holder.to_string());
                more.push(event(hold.held.start, 0, Op::Passed { waiter, by }));
            }
            Self::Endless => more.push(event(hold.held.start, 0, Op::Endless)),
            Self::LateNotice => {
                let until = Some(at(hold.held.end));
                by_hold[here][GRANT].op = acquired(Some(hold.token), until);
                by_hold[here][END] = event(hold.held.end + 8, hold.holder, Op::Lost);
            }
            Self::NoRecovery => {
                more.extend(fault(1, Some(2), May::Delay));
                rules.aftermath = span(0);
                rules.recovery = Some(span(0));
            }
            Self::InPart => {
                more.push(event(hold.held.start, 0, Op::Parts { held: 1, of: 2, ends_in: 2 }))
            }
        }
        (by_hold.into_iter().flatten().chain(more).collect(), rules)
    }
}

proptest! {
    #[test]
    fn is_found(
        holds in fair_holds(),
        here in any::<prop::sample::Index>(),
        plant in prop::sample::select(PLANTS.to_vec()),
    ) {
        let here = here.index(holds.len() - 1);
        // Only who waits beside another can be overtaken.
        prop_assume!(
            !matches!(plant, Plant::Overtaking) || holds[here + 1].invoked < holds[here].held.start
        );
        let (events, rules) = plant.put(&holds, here);
        let found = History::from_events(events).check(&rules).violations;
        let expected = usize::from(!matches!(plant, Plant::Nothing));
        prop_assert!(found.iter().any(|it| plant.is_found(it)) == (expected == 1), "{found:?}");
        prop_assert!(found.iter().all(|it| plant.is_found(it)), "{found:?}");
    }
}

const KINDS: [May; 5] = [May::Delay, May::Stop, May::Repeat, May::ForgetInPart, May::Forget];

/// What no fault of this kind explains, however long it lasts.
fn is_never(may: May, plant: Plant) -> bool {
    use Plant::{
        InPart, LateNotice, LeftFree, Loss, LostUpdate, NoRecovery, NotReleased, Nothing,
        Overtaking, PassedBy,
    };

    match plant {
        Nothing | Overtaking | LeftFree | NoRecovery => false,
        Loss | NotReleased => !matches!(may, May::Stop | May::ForgetInPart),
        LostUpdate | LateNotice => may != May::Stop,
        InPart => may != May::Forget,
        PassedBy => matches!(may, May::Delay | May::Stop | May::ForgetInPart),
        _ => true,
    }
}

proptest! {
    /// A fault that lasts all the time excuses only what it may do.
    #[test]
    fn is_found_under_a_fault_that_does_not_explain_it(
        holds in fair_holds(),
        here in any::<prop::sample::Index>(),
        plant in prop::sample::select(PLANTS.to_vec()),
        may in prop::sample::select(KINDS.to_vec()),
    ) {
        prop_assume!(is_never(may, plant));
        let here = here.index(holds.len() - 1);
        let (mut events, rules) = plant.put(&holds, here);
        let (began, ended) = match may {
            // Before the holds that the rule is about.
            May::Forget => (1, 2),
            _ => (1, 1_000_000),
        };
        events.extend(fault(began, Some(ended), may));
        let found = History::from_events(events).check(&rules).violations;
        prop_assert!(found.iter().any(|it| plant.is_found(it)), "{plant:?} under {may:?}: {found:?}");
    }

    /// A fault that begins when the lock has been free for long does not explain that.
    #[test]
    fn a_lock_that_was_free_before_the_fault_is_found(
        holds in fair_holds(),
        here in any::<prop::sample::Index>(),
        may in prop::sample::select(KINDS.to_vec()),
    ) {
        let here = here.index(holds.len() - 1);
        let (mut events, rules) = Plant::LeftFree.put(&holds, here);
        let granted = holds[here + 1].held.start + 2 * LONG;
        events.extend(fault(granted - 2, Some(granted - 1), may));
        let found = History::from_events(events).check(&rules).violations;
        prop_assert!(matches!(&found[..], [Violation::LeftFree(..)]), "{found:?}");
    }

    /// A waiter that asked before a fault that forgets, and has a token of the time after it, cannot have been granted before.
    #[test]
    fn a_token_of_after_the_fault_is_not_excused_by_it(
        mut holds in fair_holds(),
        at in any::<prop::sample::Index>(),
    ) {
        prop_assume!(holds.len() >= 5);
        for (number, hold) in (0..).zip(&mut holds) {
            // Tokens of grants of their own, far from each other, of holders that wait for one lock each.
            hold.token *= 100;
            hold.holder = 3 * number;
        }
        let late = 4 + at.index(holds.len() - 4);
        let forgets = holds[late - 4].held.end;
        // Asked for after the fault, before the two whose tokens are swapped.
        holds[late - 2].invoked = holds[late - 2].held.start.max(forgets + 2);
        holds[late - 2].held.start = holds[late - 2].invoked;
        let end = holds[late - 2].held.end;
        prop_assume!(holds[late - 2].held.start < end);
        holds[late].invoked = forgets - 1;
        let (one, other) = holds.split_at_mut(late);
        std::mem::swap(&mut one[late - 1].token, &mut other[0].token);
        let mut events = history(&holds).events().to_vec();
        events.extend(fault(forgets, Some(forgets + 1), May::Forget));
        let found = History::from_events(events).check(&Rules::default()).violations;
        prop_assert!(matches!(&found[..], [Violation::TokenOrder(..)]), "{found:?}");
    }
}
