//! The scenarios, in every order with a bounded number of departures from the plain one.

use lock_task_model::scenarios::explore;
use lock_task_model::scenarios::hand_over::{self, End};
use lock_task_model::scenarios::turns::{self, Leave};

/// Explores, and prints how much.
fn every_order(departures: usize, name: &str, scenario: impl Fn() + Send + Sync + 'static) {
    let orders = explore(departures, scenario);
    println!("{name}: {orders} orders with at most {departures} departures");
}

/// S-14.
#[test]
fn each_task_has_its_turn() {
    for leave in [Leave::Drop, Leave::HandOff] {
        every_order(4, "three tasks", move || turns::each_has_its_turn(leave));
    }
}

/// S-17.
#[test]
fn a_cancelled_waiter_passes_its_turn_on() {
    for leave in [Leave::Drop, Leave::HandOff] {
        let scenario = move || turns::a_cancelled_waiter_passes_its_turn_on(leave);
        every_order(4, "one of three is cancelled", scenario);
    }
}

#[test]
fn a_close_ends_all() {
    for leave in [Leave::Drop, Leave::HandOff] {
        every_order(3, "a shutdown", move || turns::a_close_ends_all(leave));
    }
}

/// S-14, S-20.
#[test]
fn a_request_that_is_dropped_is_made_anew() {
    for leave in [Leave::Drop, Leave::HandOff] {
        let scenario = move || turns::a_request_that_is_dropped_is_made_anew(leave);
        every_order(3, "a task of the client ends", scenario);
    }
}

/// S-34.
#[test]
fn a_waiter_that_is_not_polled_is_passed_over() {
    for leave in [Leave::Drop, Leave::HandOff] {
        let scenario = move || turns::a_waiter_that_is_not_polled_is_passed_over(leave);
        every_order(3, "a waiter that is not polled", scenario);
    }
}

/// S-14, S-20.
#[test]
fn each_hold_ends_once() {
    for end in [End::Drop, End::Release] {
        every_order(3, "three holders", move || hand_over::each_hold_ends_once(end));
    }
}

/// S-17, S-20.
#[test]
fn a_cancelled_waiter_passes_its_hold_on() {
    for end in [End::Drop, End::Release] {
        let scenario = move || hand_over::a_cancelled_waiter_passes_its_hold_on(end);
        every_order(3, "one of three is cancelled", scenario);
    }
}

/// S-19, S-20.
#[test]
fn a_release_is_repeated() {
    for end in [End::Drop, End::Release] {
        every_order(2, "a lost answer", move || hand_over::a_release_is_repeated(end));
    }
}
