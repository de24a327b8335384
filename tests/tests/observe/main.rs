//! What can be seen of locks from outside: metrics, spans, and what is in neither.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod dashboard;
mod gauges;
mod logs;
mod outcomes;
mod recorder;
mod scenario;
mod spans;
mod tracer;
