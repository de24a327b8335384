//! What `#[distributed_lock]` makes of a function.

mod calls;
mod future;
mod keys_differ;
mod losses;
mod scheduled_jobs;
