//! The contract of a mutex, as one suite over every store (in memory on a paused clock, on Redis
//! in real time, there also at one address behind which a cluster answers) and every kind of lock that one at a time can have; of a lock on a quorum of three; and of the blocking
//! face of every kind, in real time.
//!
//! A case gets a [`World`], the locks that several processes share, and makes a client for each
//! process it wants. Cases cite the rules that they hold the library to.

mod at_least;
mod cancel;
mod cluster;
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
mod threads;
mod wakers;
mod world;

use cluster::{Cluster, OneAddress};
use threads::Threads;
use world::{Kind, Memory, Redis, Three};

/// Cases for every kind.
macro_rules! everywhere {
    ($make:ident, $kind:expr) => {
        $make! { $kind;
            exclusion::{
                one_holder_at_a_time,
                a_released_lock_is_free,
                a_dropped_guard_frees_the_lock,
                a_panicking_holder_frees_the_lock,
                try_lock_takes_no_for_an_answer,
                try_lock_right_after_a_drop_succeeds,
                try_lock_is_not_fooled_by_a_listener,
                tokens_grow_across_clients,
                invalid_names_and_options_are_refused,
                namespaces_are_kept_apart,
                a_shut_down_client_refuses,
                shutdown_gives_back_what_is_dropped,
                shutdown_wakes_tasks_that_wait_for_the_store,
                letting_go_after_shutdown_frees_the_lock,
                shutdown_does_not_wait_for_what_is_lost,
            }
            leases::{
                a_watchdog_hold_outlives_its_lease,
                a_fixed_lease_cuts_the_body_off,
                finish_lets_the_body_end_and_reports,
                lost_resolves_at_the_deadline,
                extend_moves_the_deadline,
                extend_never_shortens,
                max_hold_ends_renewal,
                a_suspended_machine_loses_its_holds,
                the_body_is_dropped_before_the_guard,
                an_expired_hold_does_not_touch_its_successor,
            }
            line::{
                local_waiters_are_served_in_order,
                a_waiter_times_out,
                waiters_time_out_together,
                a_dropped_waiter_leaves_the_line,
                too_many_waiters_are_sent_away,
                a_waiter_in_another_client_is_woken,
                both_clients_get_their_turns,
                a_waiter_with_another_lease_gets_its_own,
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

/// Cases for kinds that a body can take again inside itself (S-6).
macro_rules! re_entrant {
    ($make:ident, $kind:expr) => {
        $make! { $kind;
            reentry::{
                an_enclosed_acquire_re_enters,
                siblings_exclude_each_other,
                a_plain_guard_gives_no_re_entry,
                a_spawned_task_inherits_nothing_unless_told,
                a_nested_guard_that_outlives_the_outer_keeps_the_lock,
                a_longer_nested_lease_extends_a_fixed_one,
                a_nested_watchdog_extends_a_fixed_hold_once,
                the_hold_count_stays_one,
                re_entries_side_by_side_exclude_each_other,
                a_re_entry_beside_another_is_busy_or_times_out,
                a_waiting_re_entry_that_is_dropped_is_passed_over,
                a_loss_reaches_re_entries_that_wait,
            }
            leases::{ max_hold_of_a_re_entry_is_ignored }
            cancel::{ a_run_dropped_anywhere_keeps_the_guard }
        }
    };
}

/// Cases for kinds whose holds pass from one local waiter to the next (S-14).
macro_rules! handed_on {
    ($make:ident, $kind:expr) => {
        $make! { $kind;
            line::{
                handed_over_holds_are_watched_anew, hand_off_ends_with_its_window,
                a_hold_near_its_end_is_not_handed_over
            }
        }
    };
}

/// Cases for the blocking face of every kind: those that drop no future, whose bodies end, and that do not race in one task,
/// which a call that joins the queue holds up.
macro_rules! on_threads {
    ($make:ident, $kind:expr) => {
        $make! { $kind;
            exclusion::{
                one_holder_at_a_time,
                a_released_lock_is_free,
                a_dropped_guard_frees_the_lock,
                a_panicking_holder_frees_the_lock,
                try_lock_takes_no_for_an_answer,
                try_lock_right_after_a_drop_succeeds,
                try_lock_is_not_fooled_by_a_listener,
                tokens_grow_across_clients,
                invalid_names_and_options_are_refused,
                namespaces_are_kept_apart,
                a_shut_down_client_refuses,
                shutdown_gives_back_what_is_dropped,
                shutdown_wakes_tasks_that_wait_for_the_store,
                letting_go_after_shutdown_frees_the_lock,
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

/// The same for kinds whose waiters queue in their process. Where the queue is in the store, a thread that has begun to wait
/// may not have its place yet; `tests/blocking` shows the order there.
macro_rules! in_line_on_threads {
    ($make:ident, $kind:expr) => {
        $make! { $kind; line::{ local_waiters_are_served_in_order } }
    };
}

/// The same for kinds that a body can take again inside itself (S-6).
macro_rules! re_entrant_on_threads {
    ($make:ident, $kind:expr) => {
        $make! { $kind;
            reentry::{
                an_enclosed_acquire_re_enters,
                siblings_exclude_each_other,
                a_plain_guard_gives_no_re_entry,
                a_spawned_task_inherits_nothing_unless_told,
                a_nested_guard_that_outlives_the_outer_keeps_the_lock,
                a_longer_nested_lease_extends_a_fixed_one,
                a_nested_watchdog_extends_a_fixed_hold_once,
                the_hold_count_stays_one,
                re_entries_side_by_side_exclude_each_other,
                a_re_entry_beside_another_is_busy_or_times_out,
                a_loss_reaches_re_entries_that_wait,
            }
        }
    };
}

macro_rules! blocking_in_memory {
    ($kind:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $module::$case(&Threads(Memory::new($kind))).await;
            }
        )*)*
    };
}

macro_rules! blocking_on_redis {
    ($kind:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $module::$case(&Threads(Redis::start($kind).await)).await;
            }
        )*)*
    };
}

macro_rules! in_memory {
    ($kind:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[tokio::test(start_paused = true)]
            async fn $case() {
                $module::$case(&Memory::new($kind)).await;
            }
        )*)*
    };
}

macro_rules! on_redis {
    ($kind:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $module::$case(&Redis::start($kind).await).await;
            }
        )*)*
    };
}

macro_rules! in_a_cluster {
    ($kind:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $module::$case(&Cluster::borrow($kind).await).await;
            }
        )*)*
    };
}

macro_rules! at_one_address {
    ($kind:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $module::$case(&OneAddress::borrow($kind).await).await;
            }
        )*)*
    };
}

macro_rules! on_three_servers {
    ($kind:expr; $($module:ident :: { $($case:ident),* $(,)? })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $module::$case(&Three::start($kind).await).await;
            }
        )*)*
    };
}

/// The groups of cases that a kind has to pass, on each of these stores.
macro_rules! contract {
    ($($name:ident = $kind:ident $(in $cluster:ident)?: $($group:ident),*;)*) => {$(
        mod $name {
            mod memory {
                use crate::contract::*;
                $($group!(in_memory, Kind::$kind);)*
            }

            mod redis {
                use crate::contract::*;
                $($group!(on_redis, Kind::$kind);)*
            }

            mod one_address {
                use crate::contract::*;
                $($group!(at_one_address, Kind::$kind);)*
            }

            contract!(@ $($cluster)? $kind: $($group),*);
        }
    )*};
    (@ cluster $kind:ident: $($group:ident),*) => {
        mod cluster {
            use crate::contract::*;
            $($group!(in_a_cluster, Kind::$kind);)*
        }
    };
    (@ $kind:ident: $($group:ident),*) => {};
}

contract! {
    mutex = Mutex in cluster: everywhere, re_entrant, handed_on;
    fair = Fair in cluster: everywhere, re_entrant;
    write_side = WriteSide in cluster: everywhere, re_entrant;
    one_permit = OnePermit in cluster: everywhere;
    one_name = OneName: everywhere, re_entrant, handed_on;
    one_server = OneServer: everywhere, re_entrant, handed_on;
}

mod quorum {
    use crate::contract::*;
    everywhere!(on_three_servers, Kind::Mutex);
    re_entrant!(on_three_servers, Kind::Mutex);
    handed_on!(on_three_servers, Kind::Mutex);
}

/// The groups of cases that the blocking face of a kind has to pass.
macro_rules! blocking_contract {
    ($($name:ident = $kind:ident: $($group:ident),*;)*) => {$(
        mod $name {
            mod memory {
                use crate::contract::*;
                $($group!(blocking_in_memory, Kind::$kind);)*
            }

            mod redis {
                use crate::contract::*;
                $($group!(blocking_on_redis, Kind::$kind);)*
            }
        }
    )*};
}

mod blocking {
    blocking_contract! {
        mutex = Mutex: on_threads, in_line_on_threads, re_entrant_on_threads, handed_on;
        fair = Fair: on_threads, re_entrant_on_threads;
        write_side = WriteSide: on_threads, in_line_on_threads, re_entrant_on_threads;
        one_permit = OnePermit: on_threads, in_line_on_threads;
        one_name = OneName: on_threads, in_line_on_threads, re_entrant_on_threads, handed_on;
        one_server = OneServer: on_threads, in_line_on_threads, re_entrant_on_threads, handed_on;
    }
}
