//! Tokio as `lock-runtime` uses it, for an explorer that repeats each run: nothing depends on the clock or on chance.
//!
//! Channels and notifications are tokio's own: the explorer takes each of their operations as one step.

#[doc(hidden)]
pub use tokio as real;
pub use tokio::{pin, runtime, spawn, sync, task};

pub mod time;

/// As tokio's, but polls the branches in the order of the code: tokio chooses one at random.
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => { $crate::real::select! { biased; $($branches)* } };
    ($($branches:tt)*) => { $crate::real::select! { biased; $($branches)* } };
}
