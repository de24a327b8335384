//! Fencing: a resource refuses the late write of an earlier holder, by the [`FencingToken`] of each hold.
//!
//! [`Fenced`] says which names and which token a hold has; the crate `lock-sqlx` uses it for transactions. [`FenceGate`] is for
//! resources in memory. Redis itself compares the owner, with the feature `redis`: see `LockGuard::redis`.

mod of_hold;
#[cfg(feature = "redis")]
mod redis_value;
mod token;

pub use self::of_hold::{Fenced, Fences, NotExclusive};
#[cfg(feature = "redis")]
pub use self::redis_value::RedisValue;
pub use self::token::{FenceGate, FencingToken, StaleToken};
