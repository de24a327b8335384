//! Explores the model: every state within the bounds of each run, and each planted bug until a property fails.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod explore;
mod fair;
mod mutex;
mod planted;
