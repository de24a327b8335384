//! Every public future, dropped at every await point.
//!
//! [`rows`] is the list of the futures: how each is made, and how often it is polled until it completes. [`sweep`] drops
//! each after every smaller number of polls and looks at what is left. `every_future_is_here` compares the list with the
//! public API on record in `tests/api`. [`over_redis`] does the same to the attribute and the layers
//! over a server, where no clock of a test moves the requests.
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
