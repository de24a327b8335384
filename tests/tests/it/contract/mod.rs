//! The contract of a mutex, as one suite over every store (in memory on a paused clock, on Redis in real time, there also at one
//! address behind which a cluster answers) and every kind of lock that one at a time can have; of a lock on a quorum of three;
//! and of the blocking face of every kind, in real time.
//!
//! A case gets a [`World`], locks that several processes share, and makes a client for each
//! process it wants. Cases cite the rules that they hold the library to.

mod at_least;
mod cancel;
mod collisions;
mod differential;
mod exclusion;
mod finished_futures;
mod forced;
mod inspection;
mod late_polls;
mod leases;
mod line;
mod memory_store;
mod peer;
mod reentry;
mod reserved_names;
mod settings;
mod threads;
mod wakers;
mod world;

use world::{Kind, Place, World};

/// A test of that world and kind for each case.
macro_rules! cases {
    ($world:ident $kind:ident; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(case! { $world $kind $module $case })*)*
    };
}

macro_rules! case {
    (@threads_in_memory $kind:ident) => {
        World { place: Place::memory(), kind: Kind::$kind, blocks: true }
    };
    (@threads_on_redis $kind:ident) => {
        World { place: Place::redis().await, kind: Kind::$kind, blocks: true }
    };
    (@$place:ident $kind:ident) => {
        World { place: Place::$place().await, kind: Kind::$kind, blocks: false }
    };
    (memory $kind:ident $module:ident $case:ident) => {
        #[tokio::test(start_paused = true)]
        async fn $case() {
            let world = World { place: Place::memory(), kind: Kind::$kind, blocks: false };
            $module::$case(&world).await;
        }
    };
    ($world:ident $kind:ident $module:ident $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $module::$case(&case!(@$world $kind)).await;
        }
    };
}

/// Cases for every kind, and its blocking face. What is not among these drops futures, has bodies that do not end, or races in
/// one task, which a call that blocks would hold up.
macro_rules! exclusive {
    ($world:ident $kind:ident) => {
        cases! { $world $kind;
            exclusion::{
                one_holder_at_a_time,
                a_lock_that_is_let_go_is_free,
                try_lock_takes_no_for_an_answer,
                try_lock_right_after_a_drop_succeeds,
                try_lock_is_not_fooled_by_a_listener,
                tokens_grow_across_clients,
                invalid_names_and_options_are_refused,
                namespaces_are_kept_apart,
                a_shut_down_client_refuses,
                shutdown_gives_back_what_is_dropped,
                shutdown_wakes_tasks_that_wait_for_the_store,
                shutdown_does_not_wait_for_what_is_lost,
            }
            leases::{
                a_watchdog_hold_outlives_its_lease,
                finish_lets_the_body_end_and_reports,
                lost_resolves_at_the_deadline,
                extend_moves_the_deadline,
                extend_never_shortens,
                an_expired_hold_does_not_touch_its_successor,
            }
            line::{
                a_waiter_times_out,
                a_waiter_in_another_client_is_woken,
                a_waiter_with_another_lease_gets_its_own,
            }
        }
    };
}

/// Cases for kinds that a body can take again inside itself (S-6), and their blocking face.
macro_rules! nested {
    ($world:ident $kind:ident) => {
        cases! { $world $kind;
            reentry::{
                an_enclosed_acquire_re_enters,
                a_plain_guard_gives_no_re_entry,
                a_spawned_task_inherits_nothing_unless_told,
                a_nested_guard_that_outlives_the_outer_keeps_the_lock,
                a_longer_nested_lease_extends_a_fixed_one,
                a_nested_watchdog_extends_a_fixed_hold_once,
                re_entries_side_by_side_exclude_each_other,
                a_re_entry_beside_another_is_busy_or_times_out,
                a_loss_reaches_re_entries_that_wait,
            }
        }
    };
}

/// Cases for every kind that only async code can run.
macro_rules! asynchronous {
    ($world:ident $kind:ident) => {
        cases! { $world $kind;
            leases::{
                a_fixed_lease_cuts_the_body_off,
                max_hold_ends_renewal,
                a_suspended_machine_loses_its_holds,
                the_body_is_dropped_before_the_guard,
            }
            line::{
                local_waiters_are_served_in_order,
                waiters_time_out_together,
                a_dropped_waiter_leaves_the_line,
                too_many_waiters_are_sent_away,
                both_clients_get_their_turns,
                waiters_are_shown_with_their_site_and_what_they_are_inside_of,
            }
            cancel::{
                an_acquire_dropped_anywhere_leaves_nothing,
                a_waiting_acquire_dropped_anywhere_leaves_nothing,
                a_release_dropped_anywhere_is_finished,
            }
        }
    };
}

/// The same for kinds that a body can take again inside itself.
macro_rules! re_entrant {
    ($world:ident $kind:ident) => {
        cases! { $world $kind;
            reentry::{ a_waiting_re_entry_that_is_dropped_is_passed_over }
            leases::{ max_hold_of_a_re_entry_is_ignored }
            cancel::{ a_run_dropped_anywhere_keeps_the_guard }
        }
    };
}

/// Cases for kinds whose holds pass from one local waiter to the next (S-14).
macro_rules! handed_on {
    ($world:ident $kind:ident) => {
        cases! { $world $kind;
            line::{
                handed_over_holds_are_watched_anew,
                hand_off_ends_with_its_window_and_before_its_lease,
            }
        }
    };
}

/// A case for the blocking face of kinds whose waiters queue in their process. Where the queue is in the store, a thread that has
/// begun to wait may not have its place yet; `tests/blocking` shows the order there.
macro_rules! in_line_on_threads {
    ($world:ident $kind:ident) => {
        cases! { $world $kind; line::{ local_waiters_are_served_in_order } }
    };
}

/// The groups of cases that a kind has to pass, in each of these worlds: a module for each.
macro_rules! contract {
    ($($name:ident = $kind:ident [$($module:ident $($world:ident)?),*]: $groups:tt;)*) => {$(
        mod $name {
            $(mod $module {
                use crate::contract::*;
                contract!(@ ($module $($world)?) $kind $groups);
            })*
        }
    )*};
    (@ ($module:ident) $kind:ident [$($group:ident),*]) => { $($group!($module $kind);)* };
    (@ ($module:ident $world:ident) $kind:ident [$($group:ident),*]) => { $($group!($world $kind);)* };
}

contract! {
    mutex = Mutex [memory, redis, one_address, cluster]:
        [exclusive, asynchronous, nested, re_entrant, handed_on];
    fair = Fair [memory, redis, one_address, cluster]:
        [exclusive, asynchronous, nested, re_entrant];
    write_side = WriteSide [memory, redis, one_address, cluster]:
        [exclusive, asynchronous, nested, re_entrant];
    one_permit = OnePermit [memory, redis, one_address, cluster]: [exclusive, asynchronous];
    one_name = OneName [memory, redis, one_address]:
        [exclusive, asynchronous, nested, re_entrant, handed_on];
    one_server = OneServer [memory, redis, one_address]:
        [exclusive, asynchronous, nested, re_entrant, handed_on];
}

mod quorum {
    use crate::contract::*;
    contract!(@ (three_servers) Mutex [exclusive, asynchronous, nested, re_entrant, handed_on]);
}

mod blocking {
    contract! {
        mutex = Mutex [memory threads_in_memory, redis threads_on_redis]:
            [exclusive, in_line_on_threads, nested, handed_on];
        fair = Fair [memory threads_in_memory, redis threads_on_redis]: [exclusive, nested];
        write_side = WriteSide [memory threads_in_memory, redis threads_on_redis]:
            [exclusive, in_line_on_threads, nested];
        one_permit = OnePermit [memory threads_in_memory, redis threads_on_redis]:
            [exclusive, in_line_on_threads];
        one_name = OneName [memory threads_in_memory, redis threads_on_redis]:
            [exclusive, in_line_on_threads, nested, handed_on];
        one_server = OneServer [memory threads_in_memory, redis threads_on_redis]:
            [exclusive, in_line_on_threads, nested, handed_on];
    }
}
