//! What locks cost in memory: what calls and crowds allocate and keep.
//!
//! A program of its own: its allocator counts for the whole process, so one test runs at a time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod attribute;
mod chains;
mod crowded;
mod cycles;
mod metrics;
mod order;
mod policies;
mod routes;
mod survey;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::{Mutex, MutexGuard};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static ALONE: Mutex<()> = Mutex::const_new(());

/// Waits until no other test runs, and keeps them out.
async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}

/// The bytes that are allocated and not freed: unlike the process's pages, they do not depend on how
/// the allocator keeps them.
fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// How often `rounds` rounds allocate, after some that warm up.
async fn allocations(rounds: usize, mut round: impl AsyncFnMut()) -> usize {
    for _ in 0..100 {
        round().await;
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..rounds {
        round().await;
    }
    let change = region.change();
    change.allocations + change.reallocations
}
