//! The queue of a key, the client's task and the hand-off of `lock-runtime`, compiled with the mutexes of an explorer of schedules.
//!
//! These are the real source files. `Cargo.toml` gives them [Shuttle](shuttle)'s mutexes for those of `parking_lot`, and a
//! tokio whose time stands still, so `lock-runtime` has neither a feature nor a `cfg` for this. The [`scenarios`] run
//! them.
//!
//! It is not loom, whose `Arc` cannot hold a `dyn Store`. Atomics and tokio's channels are the real ones, and no places to
//! pause at: a race between two operations on atomics alone is not explored.
// The unit tests of these files belong to `lock-runtime`, and run there.
#![cfg(not(test))]
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    unexpected_cfgs,
    unreachable_pub,
    unused_imports,
    reason = "parts of a crate that is checked as a whole elsewhere"
)]

mod admin;
#[path = "../../../lock-runtime/src/backoff.rs"]
mod backoff;
#[path = "../../../lock-runtime/src/clock.rs"]
pub mod clock;
#[path = "../../../lock-runtime/src/error/mod.rs"]
pub mod error;
#[path = "../../../lock-runtime/src/fence/token.rs"]
pub mod fence;
#[path = "../../../lock-runtime/src/key/mod.rs"]
pub mod key;
#[path = "../../../lock-runtime/src/lease/mod.rs"]
mod lease;
#[path = "../../../lock-runtime/src/liveness.rs"]
mod liveness;
#[path = "../../../lock-runtime/src/observe/mod.rs"]
pub mod observe;
#[path = "../../../lock-runtime/src/opaque.rs"]
mod opaque;
#[path = "../../../lock-runtime/src/options/mod.rs"]
pub mod options;
#[path = "../../../lock-runtime/src/owned_hold/mod.rs"]
mod owned_hold;
#[path = "../../../lock-runtime/src/queue/mod.rs"]
mod queue;
#[path = "../../../lock-runtime/src/shadow.rs"]
mod shadow;
#[path = "../../../lock-runtime/src/site.rs"]
pub mod site;
#[path = "../../../lock-runtime/src/store/mod.rs"]
pub mod store;

pub use error::LockError;
pub use fence::FencingToken;
pub use key::{KeyPart, LockKey};
pub use options::{Lease, LockKind, LockOptions, Wait};

pub mod scenarios;
