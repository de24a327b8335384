//! The tests that need no process of their own, one program: to build and link once.
//!
//! A test that counts allocations, sets environment variables or installs a client for the process
//! stands in a program of its own beside this folder.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod attribute;
mod contract;
mod examples;
mod faults;
mod harness;
mod interop;
mod kinds;
mod observe;
mod operations;
mod prelude;
mod processes;
mod support;
mod topology;
mod tower;
