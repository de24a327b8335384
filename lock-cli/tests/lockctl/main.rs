//! `lockctl` as its users run it, against real servers.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod check;
mod console;
mod doctor;
mod hostile;
mod names;
mod permissions;
mod reads;
mod release;
mod rights;
#[cfg(unix)]
mod run;
mod watch;
mod world;
