//! Fenced transactions on real databases.
//!
//! Each test but those of SQLite needs a server that `cargo xtask test --with-databases` installs, and is ignored without it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod crew;
mod drivers;
mod holds;
mod rounds;
mod servers;
mod wrong_use;
