//! A fault allows what it explains, and nothing else that happens at that time.

use super::rules::{LIMIT, check, fault, hold, span, with_token};
use super::*;

fn rules() -> Rules {
    Rules { aftermath: span(100), notice: span(3), ..Rules::default() }
}

fn update(nanos: u64, holder: u32, from: u64) -> Vec<Event> {
    vec![event(nanos, holder, Op::Updated { from, to: from + 1 })]
}

/// A fault that befalls only this process.
fn fault_of(process: u32, began: u64, ended: u64, may: May) -> Vec<Event> {
    let mut events = fault(began, Some(ended), may);
    if let Op::FaultBegan { befalls, .. } = &mut events[0].op {
        *befalls = Some(process);
    }
    events
}

fn exclusive(holder: u32, token: u64, invoked: u64, start: u64, end: u64) -> Vec<Event> {
    with_token(token, hold(holder, Share::Exclusive, invoked, start, end))
}

fn forgets(began: u64, ended: u64) -> Vec<Event> {
    fault(began, Some(ended), May::Forget)
}

/// How many of the violations no fault allows, and how many one does.
fn judged(events: impl IntoIterator<Item = Vec<Event>>, rules: &Rules) -> (usize, usize) {
    let report = check(events, rules);
    (report.violations.len(), report.allowed.len())
}

/// A hold: how it is shared, its holder and token, when it was asked for, and from when to when it was held.
type Row = (Share, u32, u64, u64, u64, u64);

/// Of tokens and overlaps, a fault that forgets allows only what is due to it. Rows of what happens, the holds, the time of the fault, how
/// many violations no fault allows, and how many one does.
#[test]
#[rustfmt::skip]
fn what_was_forgotten_excuses_tokens_and_overlaps() {
    use Share::{Exclusive as W, Readers as R};
    // A waiter whose grant comes after that of one with a greater token.
    const LATE: Row = (W, 1, 7, 4, 30, 40);
    const NEXT: Row = (W, 5, 8, 5, 10, 20);
    // One that asked before the fault, one that had the lock after it, and one between.
    const ASKED: Row = (W, 1, 50, 4, 30, 40);
    const AFTER: Row = (W, 5, 80, 20, 22, 30);
    const BETWEEN: Row = (W, 7, 60, 13, 14, 16);
    const WAITED: Row = (W, 1, 50, 4, 40, 45);
    const FORGOTTEN: Row = (W, 5, 90, 13, 14, 16);
    const LAST: Row = (W, 1, 6, 2, 30, 40);
    const GREATER: Row = (W, 5, 9, 5, 10, 20);
    // A hold that is handed on was asked for before. The next one overlaps it, and comes before the second task.
    const FIRST: Row = (W, 0, 6, 1, 2, 12);
    const OTHER: Row = (W, 5, 90, 6, 7, 9);
    // A reader whose hold was forgotten, and who ends last.
    const READ: Row = (R, 0, 3, 1, 2, 60);
    const WRITE: Row = (W, 6, 90, 20, 21, 30);
    type Case<'a> = (&'a str, &'a [Row], (u64, u64), (usize, usize));
    let rows: [Case<'_>; 19] = [
        ("granted, forgotten, and granted to the next", &[LATE, NEXT], (6, 7), (0, 1)),
        ("both were granted after it", &[LATE, NEXT], (2, 3), (1, 0)),
        ("both were granted before it", &[LATE, NEXT], (12, 13), (1, 0)),
        ("no token is given twice", &[(W, 1, 8, 4, 30, 40), NEXT], (6, 7), (1, 0)),
        ("granted before the one between, so maybe before the fault", &[ASKED, AFTER, BETWEEN], (10, 12), (0, 1)),
        ("granted after the one between, which was after the fault", &[(W, 1, 70, 4, 30, 40), AFTER, BETWEEN], (10, 12), (1, 0)),
        ("a greater token that was forgotten", &[WAITED, FORGOTTEN], (10, 12), (0, 1)),
        ("that hides no greater one that was over before the fault", &[WAITED, FORGOTTEN, (W, 7, 70, 1, 2, 3)], (10, 12), (1, 0)),
        ("a greater token of one before", &[LAST, GREATER], (8, 9), (0, 1)),
        ("each hold before is judged", &[LAST, GREATER, (W, 7, 7, 1, 3, 5)], (8, 9), (1, 0)),
        ("handed on", &[FIRST, (W, 1, 7, 10, 12, 14), OTHER], (4, 5), (0, 2)),
        ("a task between the two was given up, and its token with it", &[FIRST, (W, 1, 8, 10, 12, 14), OTHER], (4, 5), (0, 2)),
        ("granted by itself after the fault, with a smaller token", &[FIRST, (W, 1, 80, 10, 12, 14), OTHER], (4, 5), (1, 1)),
        ("of two at once the first was forgotten", &[(W, 1, 7, 1, 10, 30), (W, 5, 8, 16, 20, 40)], (15, 18), (0, 1)),
        ("the one with the smaller token was granted first", &[(W, 1, 8, 1, 10, 30), (W, 5, 7, 16, 20, 40)], (15, 18), (2, 0)),
        ("a reader joined the hold", &[(R, 0, 6, 1, 2, 15), (R, 1, 6, 10, 11, 14), (W, 5, 90, 6, 7, 20)], (4, 5), (0, 3)),
        ("a reader asked for its own", &[(R, 0, 6, 1, 2, 15), (R, 1, 80, 10, 11, 14), (W, 5, 90, 6, 7, 20)], (4, 5), (2, 1)),
        ("a reader that was forgotten", &[READ, WRITE], (5, 6), (0, 1)),
        ("that hides no other", &[READ, (R, 3, 20, 10, 11, 40), WRITE], (5, 6), (1, 1)),
    ];
    for (what, holds, (began, ended), expected) in rows {
        let holds = holds.iter().map(|(share, holder, token, invoked, start, end)| {
            with_token(*token, hold(*holder, *share, *invoked, *start, *end))
        });
        assert_eq!(judged(holds.chain([forgets(began, ended)]), &rules()), expected, "{what}");
    }
    let late = [exclusive(1, 7, 4, 30, 40), exclusive(5, 8, 5, 10, 20)];
    let stops = fault(6, Some(7), May::Stop);
    assert_eq!(judged(late.into_iter().chain([stops]), &rules()), (1, 0), "nothing was forgotten");
}

/// An update that undoes another one is late, and its process has stood still.
#[test]
fn a_stop_explains_no_lost_update_of_others() {
    let under = |stopped| {
        let stops = fault_of(stopped, 10, 35, May::Stop);
        let holds = [exclusive(0, 1, 1, 2, 20), exclusive(3, 2, 21, 22, 40)];
        judged(holds.into_iter().chain([update(15, 0, 7), update(30, 3, 7), stops]), &rules())
    };
    assert_eq!([under(0), under(1)], [(0, 1); 2], "it has read, and written, one of the two");
    assert_eq!(under(2), (1, 0), "another process stood still");
}

/// A process that stood still may write late over what others have written since, which shows only when that is read.
#[test]
fn a_stop_explains_what_came_late_over_other_updates() {
    let under = |began, ended| {
        let stops = fault_of(0, began, ended, May::Stop);
        let holds = [
            exclusive(0, 1, 1, 2, 20),
            exclusive(3, 2, 21, 22, 30),
            exclusive(4, 3, 31, 32, 40),
            exclusive(6, 4, 41, 42, 50),
        ];
        let updates = [update(15, 0, 7), update(25, 3, 7), update(35, 4, 8), update(45, 6, 8)];
        judged(holds.into_iter().chain(updates).chain([stops]), &rules())
    };
    assert_eq!(under(16, 38), (0, 2), "it wrote 8 once more, after 9");
    assert_eq!(under(21, 38), (2, 0), "its hold had ended");
}

/// A value changes under a reader only because of a writer that was forgotten, came late, or was cancelled.
#[test]
fn a_change_under_a_reader_needs_a_writer() {
    let write = |until, then: &[(u64, Op)]| {
        let update = [(9, Op::Updated { from: 7, to: 8 })];
        with_token(5, granted(0, until, &[&update, then].concat()))
    };
    let read = || {
        let mut events = with_token(6, hold(3, Share::Readers, 12, 20, 40));
        events.push(event(35, 3, Op::Reread { before: 7, after: 8 }));
        events
    };
    let beside = || write(None, &[(30, Op::ReleaseInvoked)]);
    assert_eq!(judged([beside(), read(), forgets(10, 11)], &rules()), (0, 2), "and an overlap");
    assert_eq!(judged([beside(), read(), forgets(32, 33)], &rules()), (2, 0), "after both");
    let cancelled = write(None, &[(9, Op::WriteCancelled), (10, Op::ReleaseInvoked)]);
    assert_eq!(judged([cancelled, read()], &rules()), (0, 0));
    let stops = fault_of(0, 10, 30, May::Stop);
    let stopped = write(Some(18), &[(30, Op::Lost)]);
    assert_eq!(judged([stopped, read(), stops], &rules()), (0, 2), "and it learned late");
}

#[test]
fn permits_are_too_many_only_if_some_were_forgotten() {
    let permits = |holder, count, invoked, start| {
        let share = Share::Permits { count, limit: LIMIT };
        with_token(100 * start, hold(holder, share, invoked, start, 50))
    };
    let crowd = |began, ended| {
        [permits(1, 3, 1, 10), permits(2, 2, 11, 12), permits(3, 4, 13, 20), forgets(began, ended)]
    };
    assert_eq!(judged(crowd(14, 15), &rules()), (0, 1), "five were forgotten");
    assert_eq!(judged(crowd(8, 10), &rules()), (1, 0), "three were");
    assert_eq!(judged(crowd(22, 23), &rules()), (1, 0), "all were granted before it");
    assert_eq!(judged(crowd(0, 0), &rules()), (1, 0), "all were granted after it");
    // Three more are asked for after the fault, with a token before that of two which are said to be forgotten.
    let later = with_token(1_100, hold(4, Share::Permits { count: 3, limit: LIMIT }, 16, 17, 18));
    assert_eq!(judged(crowd(14, 15).into_iter().chain([later]), &rules()), (3, 0));
    let all = [permits(1, LIMIT, 1, 10), permits(2, LIMIT, 14, 20), permits(3, LIMIT, 21, 30)];
    let twice = |again| all.clone().into_iter().chain([forgets(12, 13), forgets(again, again + 1)]);
    assert_eq!(
        judged(twice(22), &rules()),
        (0, 2),
        "those that were granted after the first loss, too"
    );
    assert_eq!(judged(twice(32), &rules()), (1, 1), "the second loss came after all grants");
}

#[test]
fn a_fault_of_one_process_explains_no_late_answer_to_another() {
    let fails = |holder, lost| {
        granted(holder, Some(90), &[(45, Op::ReleaseInvoked), (50, Op::NotReleased { lost })])
    };
    let cut_off = |process| fault_of(process, 20, 30, May::Delay);
    assert_eq!(judged([fails(0, false), cut_off(0)], &rules()), (0, 1));
    assert_eq!(judged([fails(3, false), cut_off(0)], &rules()), (1, 0));
    assert_eq!(judged([fails(0, true), cut_off(0)], &rules()), (1, 0), "the store had lost it");
}

#[test]
fn a_lock_is_left_free_only_for_as_long_as_a_fault_lasts() {
    let rules = Rules { free: Some(span(5)), aftermath: span(4), ..rules() };
    let free = |until, faults: &[(u64, u64)]| {
        let holds = [exclusive(1, 1, 1, 2, 20), exclusive(5, 2, 10, until, until + 5)];
        let faults = faults.iter().map(|(began, ended)| fault(*began, Some(*ended), May::Delay));
        judged(holds.into_iter().chain(faults), &rules)
    };
    assert_eq!(free(60, &[(58, 59)]), (1, 0), "it was free for long before the fault");
    assert_eq!(free(60, &[(15, 51)]), (0, 1), "five more than the fault and its aftermath");
    assert_eq!(free(61, &[(15, 51)]), (1, 0));
    assert_eq!(free(61, &[(15, 20), (22, 51), (23, 24), (30, 52)]), (0, 1));
    assert_eq!(free(60, &[(18, 30), (37, 55)]), (0, 1), "three between the two");
    assert_eq!(free(60, &[(18, 30), (40, 55)]), (1, 0), "six between the two");
}

#[test]
fn a_lock_is_left_free_for_longer_only_by_a_busy_machine() {
    let rules = Rules { free: Some(span(5)), ..rules() };
    let free = |until| {
        let holds = [exclusive(1, 1, 1, 2, 20), exclusive(5, 2, 10, until, until + 5)];
        let busy = [(15, 22), (30, 40)]
            .map(|(since, until)| vec![event(until, 60, Op::Busy { since: at(since) })]);
        judged(holds.into_iter().chain(busy), &rules)
    };
    assert_eq!(free(27), (0, 1), "five after the first");
    assert_eq!(free(28), (1, 0));
    assert_eq!(free(39), (1, 0), "eight before the second");
}

#[test]
fn a_process_that_stood_still_knows_soon_after() {
    let learns = |nanos| granted(0, Some(20), &[(nanos, Op::Lost)]);
    let stops = || fault(15, Some(40), May::Stop);
    assert_eq!(judged([learns(43), stops()], &rules()), (0, 1));
    assert_eq!(judged([learns(44), stops()], &rules()), (1, 0));
    let works = |nanos| {
        let mut events = exclusive(1, 1, 1, 10, 30);
        events.push(event(nanos, 1, Op::Effect));
        events
    };
    assert_eq!(judged([works(43), stops()], &rules()), (0, 1));
    assert_eq!(judged([works(44), stops()], &rules()), (1, 0));
}

#[test]
fn a_stop_explains_only_what_the_stopped_process_did() {
    let stops = |process| fault_of(process, 15, 40, May::Stop);
    let learns = granted(0, Some(20), &[(25, Op::Effect), (43, Op::Lost)]);
    assert_eq!(judged([learns.clone(), stops(0)], &rules()), (0, 2));
    assert_eq!(judged([learns, stops(1)], &rules()), (2, 0), "another process stood still");
}

/// A holder whose hold was forgotten has set the value back; the next one works long before it writes.
#[test]
fn what_a_forgotten_holder_left_is_read_long_after_the_fault() {
    let updates = |last| {
        [
            exclusive(1, 5, 1, 2, 40),
            exclusive(2, 6, 11, 12, 20),
            exclusive(4, 7, 20, 21, 30),
            exclusive(5, 8, 40, 41, 300),
            update(15, 2, 7),
            update(25, 4, 8),
            update(35, 1, 7),
            update(290, 5, last),
        ]
    };
    // The overlaps of the first hold, and its update.
    assert_eq!(judged(updates(8).into_iter().chain([forgets(8, 9)]), &rules()), (0, 3));
    // The forgotten holder wrote 8, so a second reader of 7 has lost an update of its own.
    assert_eq!(judged(updates(7).into_iter().chain([forgets(8, 9)]), &rules()), (1, 3));
    assert_eq!(judged(updates(8), &rules()), (3, 0));
}

#[test]
fn a_fault_explains_nothing_that_began_after_it() {
    let lost = |invoked| {
        let granted = acquired(Some(1), Some(at(90)));
        let ops = [Op::AcquireInvoked, granted, Op::Lost];
        let times = [invoked, invoked + 1, 50];
        times.into_iter().zip(ops).map(|(nanos, op)| event(nanos, 0, op)).collect::<Vec<_>>()
    };
    assert_eq!(judged([lost(30), forgets(20, 30)], &rules()), (0, 1));
    assert_eq!(judged([lost(31), forgets(20, 30)], &rules()), (1, 0));
    let delays = || fault(20, Some(30), May::Delay);
    let queued = |holder: u32, invoked, place, start| {
        let mut events = exclusive(holder, start, invoked, start, start + 5);
        events.push(event(invoked + 1, holder, Op::Queued { place }));
        events
    };
    let overtaken = |invoked| [queued(1, invoked, 7, 50), queued(5, 40, 8, 44), delays()];
    assert_eq!(judged(overtaken(30), &rules()), (0, 1));
    assert_eq!(judged(overtaken(31), &rules()), (1, 0));
}

#[test]
fn other_faults_take_no_part_in_a_recovery() {
    let rules = Rules { recovery: Some(span(10)), ..rules() };
    let after = |start, other: Option<(u64, u64)>| {
        let faults = [Some((2, 20)), other].into_iter().flatten();
        let faults = faults.map(|(began, ended)| fault(began, Some(ended), May::Delay));
        judged(faults.chain([exclusive(1, 1, 1, start, 99)]), &rules)
    };
    assert_eq!(after(31, None), (1, 0));
    assert_eq!(after(45, Some((25, 40))), (0, 0), "five before the other and five after it");
    assert_eq!(after(46, Some((25, 40))), (1, 0));
    assert_eq!(after(45, Some((19, 34))), (1, 0), "eleven after the other");
}

#[test]
fn a_free_time_that_is_excused_hides_none_that_is_not() {
    let rules = Rules { free: Some(span(5)), aftermath: span(4), ..rules() };
    // Task 2 waits from 10. The lock is free from 20 to 40, because of a fault, and from 50 to 58.
    let holds = |granted| {
        let delay = fault(18, Some(40), May::Delay);
        let waits = exclusive(2, 3, 10, granted, granted + 1);
        judged([exclusive(1, 1, 1, 2, 20), exclusive(3, 2, 39, 40, 50), waits, delay], &rules)
    };
    assert_eq!(holds(58), (1, 1));
    assert_eq!(holds(55), (0, 1));
}
