//! The contract of a mutex, as one suite over every store: in memory on a paused clock, on Redis and on
//! three Redis servers in real time.
//!
//! A case gets a [`World`], the locks that several processes share, and makes a client for each
//! process it wants. Cases cite the rules that they hold the library to.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod cancel;
mod exclusion;
mod leases;
mod line;
mod reentry;
mod world;

use world::{Memory, Redis, Three};

/// Instantiates each case over each world.
macro_rules! contract {
    ($($module:ident :: { $($case:ident),* $(,)? })*) => {
        mod memory {
            use super::*;
            $($(
                #[tokio::test(start_paused = true)]
                async fn $case() {
                    $module::$case(&Memory::new()).await;
                }
            )*)*
        }

        mod redis {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $module::$case(&Redis::start().await).await;
                }
            )*)*
        }

        mod quorum {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $module::$case(&Three::start().await).await;
                }
            )*)*
        }
    };
}

contract! {
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
        shutdown_wakes_whoever_waits_for_the_store,
        letting_go_after_shutdown_frees_the_lock,
        shutdown_does_not_wait_for_what_is_lost,
    }
    reentry::{
        an_enclosed_acquire_re_enters,
        siblings_exclude_each_other,
        a_plain_guard_gives_no_re_entry,
        a_spawned_task_inherits_nothing_unless_told,
        a_nested_guard_that_outlives_the_outer_keeps_the_lock,
        a_longer_nested_lease_extends_a_fixed_one,
        a_nested_watchdog_keeps_a_fixed_hold_alive,
        a_watchdog_within_a_watchdog_keeps_both,
        the_hold_count_is_shown_for_long_nesting,
    }
    leases::{
        a_watchdog_hold_outlives_its_lease,
        a_fixed_lease_cuts_the_body_off,
        finish_lets_the_body_end_and_reports,
        lost_resolves_at_the_deadline,
        extend_moves_the_deadline,
        extend_never_shortens,
        max_hold_ends_renewal,
        max_hold_of_a_re_entry_is_ignored,
        a_suspended_machine_loses_its_holds,
        the_body_is_dropped_before_the_guard,
        an_expired_hold_does_not_touch_its_successor,
    }
    line::{
        local_waiters_are_served_in_order,
        a_waiter_times_out,
        a_dropped_waiter_leaves_the_line,
        too_many_waiters_are_sent_away,
        a_waiter_in_another_client_is_woken,
        both_clients_get_their_turns,
        handed_over_holds_are_watched_anew,
        a_waiter_with_another_lease_gets_its_own,
        hand_off_ends_with_its_window,
    }
    cancel::{
        an_acquire_dropped_anywhere_leaves_nothing,
        a_waiting_acquire_dropped_anywhere_leaves_nothing,
        a_release_dropped_anywhere_is_finished,
        a_run_dropped_anywhere_keeps_the_guard,
    }
}
