//! Fencing: a resource refuses the late write of an earlier holder, by the [`FencingToken`](crate::FencingToken) of each hold.
//!
//! [`Fenced`] says which names and which token a hold has; the crate `lock-sqlx` uses it for transactions. [`FenceGate`] is for
//! resources in memory.

mod of_hold;
mod token;

pub use self::of_hold::{Fenced, Fences, NotExclusive};
pub use self::token::{FenceGate, FencingToken, StaleToken};
