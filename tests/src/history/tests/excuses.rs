//! A fault allows what it explains, and nothing else that happens at that time.

use super::rules::{LIMIT, check, fault, hold, span};
use super::*;

fn rules() -> Rules {
    Rules { aftermath: span(100), notice: span(3), ..Rules::default() }
}

/// A hold as [`hold`] has it, with this token.
fn with_token(token: u64, mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        if let Op::Acquired { token: its, .. } = &mut event.op {
            *its = Some(token);
        }
    }
    events
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

fn read(holder: u32, token: u64, invoked: u64, start: u64, end: u64) -> Vec<Event> {
    with_token(token, hold(holder, Share::Readers, invoked, start, end))
}

fn forgets(began: u64, ended: u64) -> Vec<Event> {
    fault(began, Some(ended), May::Forget)
}

/// How many of the violations no fault allows, and how many one does.
fn judged(events: impl IntoIterator<Item = Vec<Event>>, rules: &Rules) -> (usize, usize) {
    let report = check(events, rules);
    (report.violations.len(), report.allowed.len())
}

#[test]
fn a_token_is_too_small_only_if_its_grant_was_forgotten() {
    let late = exclusive(1, 7, 4, 30, 40);
    let next = exclusive(5, 8, 5, 10, 20);
    let judged = |forgets| judged([late.clone(), next.clone(), forgets], &rules());
    assert_eq!(judged(forgets(6, 7)), (0, 1), "granted, forgotten, and granted to the next");
    assert_eq!(judged(forgets(2, 3)), (1, 0), "both were granted after it");
    assert_eq!(judged(forgets(12, 13)), (1, 0), "both were granted before it");
    assert_eq!(judged(fault(6, Some(7), May::Stop)), (1, 0), "nothing was forgotten");
}

#[test]
fn a_waiter_that_asked_before_the_fault_needs_a_token_of_that_time() {
    let next = exclusive(5, 80, 20, 22, 30);
    let late = |token| exclusive(1, token, 4, 30, 40);
    let between = exclusive(7, 60, 13, 14, 16);
    let judged =
        |late: Vec<Event>| judged([late, next.clone(), between.clone(), forgets(10, 12)], &rules());
    assert_eq!(
        judged(late(50)),
        (0, 1),
        "it was granted before the one between, and so may be before the fault"
    );
    assert_eq!(
        judged(late(70)),
        (1, 0),
        "the one between was granted after the fault, and it was granted after that"
    );
}

#[test]
fn a_token_that_is_excused_hides_none_that_is_not() {
    let late = exclusive(1, 50, 4, 40, 45);
    let forgotten = exclusive(5, 90, 13, 14, 16);
    assert_eq!(judged([late.clone(), forgotten.clone(), forgets(10, 12)], &rules()), (0, 1));
    // Granted before the fault, with a greater token, and over when the late one was granted.
    let before = exclusive(7, 70, 1, 2, 3);
    assert_eq!(judged([late, forgotten, before, forgets(10, 12)], &rules()), (1, 0));
}

#[test]
fn no_token_is_given_twice() {
    let late = exclusive(1, 8, 4, 30, 40);
    let next = exclusive(5, 8, 5, 10, 20);
    assert_eq!(judged([late, next, forgets(6, 7)], &rules()), (1, 0));
}

#[test]
fn each_hold_before_is_judged() {
    let late = exclusive(1, 6, 2, 30, 40);
    let next = exclusive(5, 9, 5, 10, 20);
    assert_eq!(judged([late.clone(), next.clone(), forgets(8, 9)], &rules()), (0, 1));
    // Its token is greater, too, and it was over when the store forgot.
    let before = exclusive(7, 7, 1, 3, 5);
    assert_eq!(judged([late, next, before, forgets(8, 9)], &rules()), (1, 0));
}

#[test]
fn a_hold_that_is_handed_on_was_asked_for_before() {
    let first = exclusive(0, 6, 1, 2, 12);
    let handed_on = exclusive(1, 7, 10, 12, 14);
    let next = exclusive(5, 90, 6, 7, 9);
    // The next one overlaps the first, and comes before the second.
    assert_eq!(
        judged([first.clone(), handed_on.clone(), next.clone(), forgets(4, 5)], &rules()),
        (0, 2)
    );
    // A task between the two was given up, and its token with it.
    let left_out = exclusive(1, 8, 10, 12, 14);
    assert_eq!(judged([first.clone(), left_out, next.clone(), forgets(4, 5)], &rules()), (0, 2));
    // It was granted after the fault by itself, and has a smaller token than the next one, which came before it.
    let asked_for = exclusive(1, 80, 10, 12, 14);
    assert_eq!(judged([first, asked_for, next, forgets(4, 5)], &rules()), (1, 1));
}

#[test]
fn a_reader_may_join_a_hold_that_is_forgotten() {
    let write = || exclusive(5, 90, 6, 7, 20);
    let joined = [read(0, 6, 1, 2, 15), read(1, 6, 10, 11, 14), write(), forgets(4, 5)];
    assert_eq!(judged(joined, &rules()).0, 0);
    let asked = [read(0, 6, 1, 2, 15), read(1, 80, 10, 11, 14), write(), forgets(4, 5)];
    assert_eq!(judged(asked, &rules()).0, 2, "an overlap, and a smaller token");
}

#[test]
fn of_two_at_once_the_first_was_forgotten() {
    let at_once = |one, other| [exclusive(1, one, 1, 10, 30), exclusive(5, other, 16, 20, 40)];
    let judged =
        |holds: [Vec<Event>; 2]| judged(holds.into_iter().chain([forgets(15, 18)]), &rules());
    assert_eq!(judged(at_once(7, 8)), (0, 1));
    // The one with the smaller token was granted first, so this one was not forgotten.
    let [one, other] = at_once(8, 7);
    assert_eq!(judged([one, other]).0, 2, "an overlap, and a smaller token");
}

/// A reader whose hold was forgotten, and who ends last, hides none whose hold was not.
#[test]
fn each_overlapping_pair_is_judged() {
    let forgotten = || read(0, 3, 1, 2, 60);
    let write = || exclusive(6, 90, 20, 21, 30);
    assert_eq!(judged([forgotten(), write(), forgets(5, 6)], &rules()), (0, 1));
    let later = read(3, 20, 10, 11, 40);
    assert_eq!(judged([forgotten(), later, write(), forgets(5, 6)], &rules()), (1, 1));
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
        let granted = acquired(Some(5), until);
        let update = Op::Updated { from: 7, to: 8 };
        let ops = [(1, Op::AcquireInvoked), (2, granted), (9, update)];
        let ops = ops.iter().chain(then);
        ops.map(|(nanos, op)| event(*nanos, 0, op.clone())).collect::<Vec<_>>()
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
    let stopped = write(Some(at(18)), &[(30, Op::Lost)]);
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
        let granted = acquired(Some(1), Some(at(90)));
        let ops = [Op::AcquireInvoked, granted, Op::ReleaseInvoked, Op::NotReleased { lost }];
        let events = [5, 6, 45, 50].into_iter().zip(ops);
        events.map(|(nanos, op)| event(nanos, holder, op)).collect::<Vec<_>>()
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
    let learns = |nanos| {
        let granted = acquired(Some(1), Some(at(20)));
        vec![event(1, 0, Op::AcquireInvoked), event(2, 0, granted), event(nanos, 0, Op::Lost)]
    };
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
    let granted = acquired(Some(1), Some(at(20)));
    let learns = vec![
        event(1, 0, Op::AcquireInvoked),
        event(2, 0, granted),
        event(25, 0, Op::Effect),
        event(43, 0, Op::Lost),
    ];
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
