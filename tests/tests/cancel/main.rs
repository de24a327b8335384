//! Every public future, dropped at every await point.
//!
//! [`rows`] is the list of the futures: how each is made. [`sweep`] drops each after one poll more in each round, until it
//! completes, and looks at what is left. `every_future_is_here` compares the list with the public API on record in
//! `tests/api`. [`over_redis`] does the same to the attribute and the layers over a server, where no clock of a test moves the
//! requests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod connecting;
#[path = "../it/kinds/polled/far.rs"]
mod far;
mod over_redis;
mod prelude;
mod public_api;
mod rows;
mod stage;
mod sweep;
