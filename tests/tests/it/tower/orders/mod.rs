//! The example `orders` as it is meant to be used: two processes, one Redis, one database, many clients
//! at once, and an operator who stops, kills and reconfigures.

mod operations;
mod payments;
mod seen;
mod shop;
mod stale;
