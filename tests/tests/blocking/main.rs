//! Blocking calls: threads, pools, losses, re-entry, the attribute on plain functions. What they share with async calls
//! is in `it/contract`, which runs over both.
//!
//! A program of its own: it installs clients for the process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod attribute;
mod lifetime;
mod losses;
mod pools;
mod prelude;
mod processes;
mod reentry;
mod refusals;
