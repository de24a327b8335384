//! Each rule finds what is planted against it, and nothing in the same history without.

use super::*;

pub(super) const LIMIT: u32 = 5;

pub(super) fn span(nanos: u64) -> std::time::Duration {
    std::time::Duration::from_nanos(nanos)
}

/// One hold of task `holder` from `start` to `end`, asked for at `invoked` and released without delay.
pub(super) fn hold(holder: u32, share: Share, invoked: u64, start: u64, end: u64) -> Vec<Event> {
    let acquired = Op::Acquired { share, token: Some(start), valid_until: None };
    let ops = [Op::AcquireInvoked, acquired, Op::ReleaseInvoked, Op::Released];
    let times = [invoked, start, end, end];
    times.into_iter().zip(ops).map(|(nanos, op)| event(nanos, holder, op)).collect()
}

/// A hold as [`hold`] has it, with this token.
pub(super) fn with_token(token: u64, mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        if let Op::Acquired { token: its, .. } = &mut event.op {
            *its = Some(token);
        }
    }
    events
}

pub(super) fn check(events: impl IntoIterator<Item = Vec<Event>>, rules: &Rules) -> Report {
    History::from_events(events.into_iter().flatten().collect()).check(rules)
}

fn violations(events: impl IntoIterator<Item = Vec<Event>>) -> Vec<Violation> {
    check(events, &Rules::default()).violations
}

pub(super) fn fault(began: u64, ended: Option<u64>, may: May) -> Vec<Event> {
    let name = || "a fault".to_owned();
    let began = event(began, 15, Op::FaultBegan { fault: name(), may, befalls: None });
    let ended = ended.map(|at| event(at, 15, Op::FaultEnded { fault: name() }));
    [began].into_iter().chain(ended).collect()
}

/// Asserts that these violations are one of that shape.
macro_rules! finds {
    ($found:expr, $shape:pat) => {{
        let found = $found;
        assert!(matches!(&found[..], [$shape]), "{found:?}");
    }};
}

/// C5.
#[test]
fn readers_share_and_writers_do_not() {
    let read = |holder, start, end| hold(holder, Share::Readers, 1, start, end);
    let write = |holder, start, end| hold(holder, Share::Exclusive, 1, start, end);
    let (one, two) = (read(1, 10, 30), read(2, 20, 40));
    assert_eq!(violations([one.clone(), two.clone(), write(3, 40, 50), read(4, 50, 60)]), []);
    for planted in [write(3, 35, 50), write(3, 5, 11), write(3, 12, 13)] {
        finds!(violations([one.clone(), two.clone(), planted]), Violation::Overlap(..));
    }
}

/// C3: readers may share the token of the writer before them, but a later writer may not have it.
#[test]
fn readers_may_have_one_token() {
    let of =
        |share, holder, start, token| with_token(token, hold(holder, share, 1, start, start + 5));
    let write = |holder, start, token| of(Share::Exclusive, holder, start, token);
    let read = |holder, start, token| of(Share::Readers, holder, start, token);
    assert_eq!(violations([write(1, 10, 7), read(2, 20, 7), read(3, 22, 7), write(4, 30, 8)]), []);
    finds!(
        violations([write(1, 10, 7), read(2, 20, 7), write(3, 30, 7)]),
        Violation::TokenOrder(..)
    );
    finds!(violations([read(1, 10, 7), write(2, 20, 7)]), Violation::TokenOrder(..));
    finds!(violations([write(1, 10, 7), read(2, 20, 6)]), Violation::TokenOrder(..));
    finds!(violations([read(1, 10, 7), write(2, 20, 6)]), Violation::TokenOrder(..));
    assert_eq!(violations([read(1, 10, 7), read(2, 20, 6)]), [], "one joined an earlier hold");
}

/// C6.
#[test]
fn permits_stay_within_the_limit() {
    let permits = |holder, count, limit, start, end| {
        hold(holder, Share::Permits { count, limit }, 1, start, end)
    };
    let clean = [permits(1, 3, LIMIT, 10, 20), permits(2, 2, LIMIT, 12, 30)];
    let after = permits(3, 3, LIMIT, 20, 25);
    assert_eq!(violations(clean.clone().into_iter().chain([after])), []);
    let one_more = permits(3, 1, LIMIT, 19, 25);
    finds!(
        violations(clean.clone().into_iter().chain([one_more])),
        Violation::TooManyPermits(_, 6)
    );
    // The limit is lowered while more are in use.
    assert_eq!(violations(clean.into_iter().chain([permits(3, 1, 2, 20, 25)])), []);
}

/// C6: those that ended before they could leave are still counted.
#[test]
fn a_crowd_is_found() {
    let enters = |holder, start, inside, end| {
        let share = Share::Permits { count: 1, limit: 2 };
        let mut events = hold(holder, share, 1, start, 50);
        events.truncate(2);
        events.extend([event(start + 1, holder, Op::Entered { inside }), event(50, holder, end)]);
        if let Op::Acquired { valid_until, .. } = &mut events[1].op {
            *valid_until = Some(at(if start < 20 { 20 } else { 90 }));
        }
        events
    };
    let rules = Rules { notice: span(40), ..Rules::default() };
    let entries = |last| {
        let lost = enters(1, 10, 1, Op::Lost);
        let others =
            [enters(3, 30, 2, Op::ReleaseInvoked), enters(6, 31, last, Op::ReleaseInvoked)];
        check([lost].into_iter().chain(others), &rules).violations
    };
    assert_eq!(entries(3), []);
    finds!(entries(4), Violation::Crowd(_, 2));
}

/// C3: the answer to a permit's request may be late, so only the time of the request counts.
#[test]
fn permits_have_tokens_in_the_order_of_the_asking() {
    let permit = |holder, token, invoked, start| {
        let share = Share::Permits { count: 1, limit: LIMIT };
        with_token(token, hold(holder, share, invoked, start, start + 5))
    };
    assert_eq!(violations([permit(1, 7, 1, 10), permit(2, 6, 9, 20)]), []);
    finds!(violations([permit(1, 7, 1, 10), permit(2, 6, 10, 20)]), Violation::TokenOrder(..));
}

/// C2.
#[test]
fn a_lost_update_is_found() {
    let update = |nanos, holder, from| event(nanos, holder, Op::Updated { from, to: from + 1 });
    let mut one = hold(1, Share::Exclusive, 1, 10, 20);
    one.push(update(15, 1, 0));
    let mut other = hold(4, Share::Exclusive, 1, 20, 30);
    other.push(update(25, 4, 1));
    assert_eq!(violations([one.clone(), other.clone()]), []);
    other.last_mut().unwrap().op = Op::Updated { from: 0, to: 1 };
    finds!(violations([one.clone(), other.clone()]), Violation::LostUpdate(..));
    // Killed before it could write, or long after.
    let killed =
        |nanos| vec![Event { object: String::new(), task: 0, ..event(nanos, 1, Op::Killed) }];
    let unreleased = one.iter().filter(|event| event.at < at(20)).cloned().collect::<Vec<_>>();
    assert_eq!(violations([unreleased, killed(16), other.clone()]), []);
    finds!(violations([one.clone(), killed(24), other.clone()]), Violation::LostUpdate(..));
    // Cancelled before it could write.
    let cancelled = |nanos, holder| vec![event(nanos, holder, Op::WriteCancelled)];
    assert_eq!(violations([one.clone(), cancelled(16, 1), other.clone()]), []);
    // Another task was.
    let mut elsewhere = hold(2, Share::Exclusive, 1, 10, 20);
    elsewhere.push(update(15, 2, 0));
    elsewhere.iter_mut().for_each(|event| event.object = "another".to_owned());
    finds!(
        violations([one.clone(), elsewhere, cancelled(16, 2), other.clone()]),
        Violation::LostUpdate(..)
    );
    // The other acquired it before that, and so may have read what the first read.
    let mut long = hold(1, Share::Exclusive, 1, 10, 40);
    long.push(update(15, 1, 0));
    let found = violations([long, cancelled(24, 1), other]);
    assert!(found.iter().any(|it| matches!(it, Violation::LostUpdate(..))), "{found:?}");
}

/// C2: an update that sets the value back is one violation. It does not hide a later lost update.
#[test]
fn a_value_that_was_set_back_is_read_again() {
    let updates = |values_read: &[u64]| {
        let turn = |(number, from): (u64, &u64)| {
            let (holder, start) = ((number % 5) as u32, 10 * number);
            let mut events = hold(holder, Share::Exclusive, start, start + 1, start + 9);
            events.push(event(start + 5, holder, Op::Updated { from: *from, to: from + 1 }));
            events
        };
        violations((1..).zip(values_read).map(turn))
    };
    // The second that reads 1 sets the value back to 2.
    let found = updates(&[0, 1, 2, 3, 1, 2, 3, 4]);
    let by = |found: &Violation| match found {
        Violation::LostUpdate(_, later) => later.at,
        other => panic!("{other}"),
    };
    assert_eq!(found.iter().map(by).collect::<Vec<_>>(), [at(55)]);
    // Two that read the same afterwards, and one that reads what was there before.
    let found = updates(&[0, 1, 2, 3, 1, 2, 2, 3, 4]);
    assert_eq!(found.iter().map(by).collect::<Vec<_>>(), [at(55), at(75)]);
    let found = updates(&[0, 1, 2, 3, 1, 0]);
    assert_eq!(found.iter().map(by).collect::<Vec<_>>(), [at(55), at(65)]);
    // One that had read 3 before, and writes 4 over what the value was set back to.
    let found = updates(&[0, 1, 2, 3, 1, 3, 4]);
    assert_eq!(found.iter().map(by).collect::<Vec<_>>(), [at(55), at(65)]);
}

/// C4: a loss needs a fault, or a deadline that has passed.
#[test]
fn a_loss_without_a_reason_is_found() {
    let lost = |until| granted(0, Some(until), &[(50, Op::Lost)]);
    assert_eq!(violations([lost(50)]), []);
    finds!(violations([lost(51)]), Violation::Lost(_));
    for may in [May::ForgetInPart, May::Forget] {
        let report = check([lost(51), fault(40, Some(45), may)], &Rules::default());
        assert_eq!((report.violations.len(), report.allowed.len(), report.losses), (0, 1, 1));
    }
    // Neither one that is long over, nor one that comes later, nor one that loses no data.
    let soon = Rules { aftermath: span(4), ..Rules::default() };
    for (began, ended, may) in
        [(40, 45, May::Forget), (51, 60, May::Forget), (40, 49, May::Delay), (40, 60, May::Repeat)]
    {
        let report = check([lost(51), fault(began, Some(ended), may)], &soon);
        assert_eq!((report.violations.len(), report.faults), (1, 1), "{may:?}");
    }
}

/// C10: a hold that goes on past its deadline without knowing.
#[test]
fn a_late_notice_is_found() {
    let rules = Rules { notice: span(3), ..Rules::default() };
    let ends = |nanos, op| granted(0, Some(20), &[(nanos, op)]);
    for op in [Op::Lost, Op::ReleaseInvoked] {
        assert_eq!(check([ends(23, op.clone())], &rules).violations, []);
        finds!(check([ends(24, op.clone())], &rules).violations, Violation::LateNotice(..));
        let stopped = check([ends(24, op), fault(15, None, May::Stop)], &rules);
        assert_eq!((stopped.violations.len(), stopped.allowed.len()), (0, 1));
    }
    assert_eq!(check([ends(99, Op::Killed)], &rules).violations, []);
}

/// C4: a release that comes late takes nothing away from a successor.
#[test]
fn a_stale_release_is_found() {
    let late = |released| {
        let end = if released { Op::Released } else { Op::NotReleased { lost: true } };
        granted(0, Some(20), &[(40, Op::ReleaseInvoked), (41, end)])
    };
    let successor = hold(3, Share::Exclusive, 5, 30, 50);
    assert_eq!(violations([late(false), successor.clone()]), []);
    finds!(violations([late(true), successor]), Violation::StaleRelease(..));
    // No other task had it meanwhile.
    assert_eq!(violations([late(true), hold(3, Share::Exclusive, 5, 40, 50)]), []);
}

/// C4: the hold is compared with all later ones, also if the next one may be beside it.
#[test]
fn a_stale_release_is_found_behind_others() {
    let late = |share, token| {
        let valid_until = Some(at(20));
        vec![
            event(1, 0, Op::AcquireInvoked),
            event(2, 0, Op::Acquired { share, token: Some(token), valid_until }),
            event(40, 0, Op::ReleaseInvoked),
            event(41, 0, Op::Released),
        ]
    };
    let read = || [late(Share::Readers, 2), hold(3, Share::Readers, 5, 22, 30)];
    assert_eq!(violations(read()), []);
    finds!(
        violations(read().into_iter().chain([hold(6, Share::Exclusive, 5, 31, 50)])),
        Violation::StaleRelease(..)
    );
    let permit = |holder, start| hold(holder, Share::Permits { count: 1, limit: 2 }, 1, start, 50);
    let permits = || [late(Share::Permits { count: 1, limit: 2 }, 2), permit(3, 5)];
    assert_eq!(violations(permits()), []);
    finds!(violations(permits().into_iter().chain([permit(6, 25)])), Violation::StaleRelease(..));
}

/// C4: a hold is there when it is released, up to its deadline.
#[test]
fn a_release_that_fails_is_found() {
    let fails = |nanos| {
        let failed = (nanos, Op::NotReleased { lost: true });
        granted(0, Some(50), &[(30, Op::ReleaseInvoked), failed])
    };
    finds!(violations([fails(49)]), Violation::NotReleased(..));
    assert_eq!(violations([fails(50)]), [], "the lease may have ended");
    // The first release has no answer. The second hold is lost at its deadline, and so has none to release.
    let lost = vec![
        event(32, 0, Op::AcquireInvoked),
        event(33, 0, acquired(Some(2), Some(at(40)))),
        event(40, 0, Op::Lost),
        event(41, 0, Op::NotReleased { lost: true }),
    ];
    let dropped = granted(0, Some(50), &[(30, Op::ReleaseInvoked)]);
    assert_eq!(violations([dropped, lost]), []);
}

/// C7.
#[test]
fn an_overtaking_is_found() {
    let queued = |holder: u32, invoked, place, start| {
        let mut events = hold(holder, Share::Exclusive, invoked, start, start + 5);
        events.push(event(invoked + 1, holder, Op::Queued { place }));
        events
    };
    assert_eq!(violations([queued(1, 1, 7, 10), queued(2, 2, 8, 15), queued(3, 3, 9, 20)]), []);
    finds!(
        violations([queued(1, 1, 7, 15), queued(2, 2, 8, 10), queued(3, 3, 9, 20)]),
        Violation::Overtaken(..)
    );
    // It joined the queue when the other had the lock already.
    assert_eq!(violations([queued(2, 2, 8, 10), queued(1, 11, 7, 15)]), []);
}

/// C8.
#[test]
fn a_lock_that_is_left_free_is_found() {
    let rules = Rules { free: Some(span(5)), ..Rules::default() };
    let events =
        |start| [hold(1, Share::Exclusive, 1, 2, 20), hold(2, Share::Exclusive, 10, start, 99)];
    assert_eq!(check(events(25), &rules).violations, []);
    let found = check(events(26), &rules).violations;
    assert!(
        matches!(found[..], [Violation::LeftFree(_, from, to)] if to.since(from) == span(6)),
        "{found:?}"
    );
    // No task waited before.
    let later = hold(2, Share::Exclusive, 90, 95, 99);
    assert_eq!(check([hold(1, Share::Exclusive, 1, 2, 20), later], &rules).violations, []);
}

/// C8: where faults are injected, a release that is missed costs as long as the lease that it should have ended.
#[test]
fn a_release_that_is_missed_is_found() {
    let second = 1_000_000_000;
    let rules = Rules::under_faults(span(second), span(second / 2), span(second));
    let next_starts = |start| {
        let holds = [(1, 1, 2, second), (2, 10, start, start + 1)];
        let holds = holds
            .map(|(holder, asked, start, end)| hold(holder, Share::Exclusive, asked, start, end));
        check(holds, &rules).violations
    };
    assert_eq!(next_starts(second + second / 4), []);
    finds!(next_starts(2 * second), Violation::LeftFree(..));
}

/// C8.
#[test]
fn a_task_that_never_gets_a_free_lock_is_found() {
    let rules = Rules { free: Some(span(5)), ..Rules::default() };
    let ends = |op: Op, nanos| {
        let waits = vec![event(10, 1, Op::AcquireInvoked), event(nanos, 1, op)];
        let others = [hold(3, Share::Exclusive, 1, 2, 20), hold(6, Share::Exclusive, 30, 31, 99)];
        check(others.into_iter().chain([waits]), &rules).violations
    };
    for op in [Op::NotAcquired, Op::Killed] {
        assert_eq!(ends(op.clone(), 25), [], "{op:?}");
        let found = ends(op.clone(), 26);
        let [Violation::LeftFree(wait, from, to)] = &found[..] else { panic!("{op:?}: {found:?}") };
        assert_eq!((wait.from, wait.to, *from, *to), (at(10), at(26), at(20), at(26)));
    }
    // It asks to the end of the history, and gives up in between.
    let asks = [Op::AcquireInvoked, Op::NotAcquired, Op::AcquireInvoked];
    let asks = asks.into_iter().zip(10..).map(|(op, nanos)| event(nanos, 1, op)).collect();
    let found = check(
        [hold(3, Share::Exclusive, 1, 2, 20), asks, hold(6, Share::Exclusive, 30, 31, 99)],
        &rules,
    );
    assert!(matches!(&found.violations[..], [Violation::LeftFree(..)]), "{found}");
    let passed = [hold(3, Share::Exclusive, 1, 2, 20), hold(4, Share::Exclusive, 10, 45, 50)];
    let newcomer = hold(8, Share::Exclusive, 27, 28, 44);
    let found = check(passed.into_iter().chain([newcomer]), &rules);
    assert!(matches!(&found.violations[..], [Violation::LeftFree(..)]), "{found}");
}

/// C12: the keys of one hold may end some milliseconds apart.
#[test]
fn a_lock_that_is_held_in_part_is_found() {
    let part = |ends_in| vec![event(1, 0, Op::Parts { held: 1, of: 2, ends_in })];
    assert_eq!(violations([part(50)]), []);
    finds!(violations([part(51)]), Violation::InPart(_));
}

/// C11.
#[test]
fn a_fault_without_recovery_is_found() {
    let rules = Rules { recovery: Some(span(10)), ..Rules::default() };
    let after = |start| [fault(2, Some(20), May::Delay), hold(1, Share::Exclusive, 1, start, 99)];
    let report = check(after(30), &rules);
    assert_eq!((report.violations.len(), report.recoveries["a fault"].took), (0, span(10)));
    finds!(check(after(31), &rules).violations, Violation::NoRecovery(..));
    // Tasks ask and get nothing.
    let asks = vec![event(25, 1, Op::AcquireInvoked), event(45, 1, Op::NotAcquired)];
    finds!(
        check([fault(2, Some(20), May::Delay), asks], &rules).violations,
        Violation::NoRecovery(..)
    );
}

/// What a fault of each kind allows that lasts from 15 to 40, and what it does not.
#[test]
fn a_fault_allows_what_it_may_do() {
    use May::{Delay, Forget, ForgetInPart, Repeat, Stop};
    const ALL: [May; 5] = [Delay, Stop, Repeat, ForgetInPart, Forget];
    let mut late = hold(1, Share::Exclusive, 1, 10, 30);
    late.push(event(35, 1, Op::Effect));
    let ends = |ops: &[(u64, Op)]| granted(0, Some(90), ops);
    let fails = |lost| ends(&[(24, Op::ReleaseInvoked), (25, Op::NotReleased { lost })]);
    let server = |op| vec![event(20, 0, op)];
    let (waiter, by) = ("a".to_owned(), "b".to_owned());
    let loses = [Stop, ForgetInPart, Forget];
    for (what, events, by) in [
        ("an overlap", overlap().concat(), &[Forget][..]),
        ("a late effect", late, &[Stop]),
        ("a loss", ends(&[(24, Op::Lost)]), &loses),
        ("a release of none", fails(true), &loses),
        ("a release without an answer", fails(false), &ALL),
        ("a waiter passed over", server(Op::Passed { waiter, by }), &[Repeat, Forget]),
        ("a part", server(Op::Parts { held: 1, of: 2, ends_in: 500 }), &[Forget]),
        ("a key without an end", server(Op::Endless), &[]),
    ] {
        assert_eq!(violations([events.clone()]).len(), 1, "{what}");
        for may in ALL {
            let found = violations([events.clone(), fault(15, Some(40), may)]);
            assert_eq!(found.is_empty(), by.contains(&may), "{what}, {may:?}: {found:?}");
        }
    }
}

fn overlap() -> [Vec<Event>; 2] {
    [hold(1, Share::Exclusive, 1, 10, 30), hold(2, Share::Exclusive, 1, 20, 40)]
}

/// Tokens grow whatever happens.
#[test]
fn a_fault_that_forgets_does_not_turn_tokens_round() {
    let mut swapped = overlap().concat();
    for event in &mut swapped {
        if let Op::Acquired { token: Some(token), .. } = &mut event.op {
            *token = 100 - *token;
        }
    }
    swapped.retain(|event| event.op != Op::ReleaseInvoked || event.at == at(40));
    let one = [event(0, 9, Op::AcquireInvoked), event(1, 9, acquired(Some(200), None))];
    let one = one.into_iter().chain([event(2, 9, Op::ReleaseInvoked)]).collect();
    let report = check([one, swapped, fault(2, None, May::Forget)], &Rules::default());
    assert!(report.violations.iter().any(|it| matches!(it, Violation::TokenOrder(..))), "{report}");
    // A grant that was forgotten before its answer arrived comes after one of a greater token.
    let overtaken = |asked| {
        let late = with_token(7, hold(1, Share::Exclusive, asked, 30, 40));
        let next = with_token(8, hold(2, Share::Exclusive, 5, 10, 20));
        let report = check([late, next, fault(2, None, May::Forget)], &Rules::default());
        (report.violations.len(), report.allowed.len())
    };
    assert_eq!((overtaken(4), overtaken(12)), ((0, 1), (1, 0)));
}

#[test]
fn a_report_names_what_it_found() {
    let report = check(overlap(), &Rules::default());
    let text = report.to_string();
    assert!(
        text.starts_with("2 locks acquired, 0 updates, 0 losses, 0 faults; 8 events\n"),
        "{text}"
    );
    assert!(text.contains("VIOLATION: held at the same time: order 42 by task 1"), "{text}");
    assert!(text.ends_with("1 violations"), "{text}");
    let panicked = std::panic::catch_unwind(|| report.assert_clean()).unwrap_err();
    assert_eq!(panicked.downcast_ref::<String>(), Some(&text));
}
