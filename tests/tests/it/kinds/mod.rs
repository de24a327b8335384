//! What each kind of lock promises beyond the contract.

mod client_identity;
mod extended;
mod fair;
mod fencing;
mod holder_remaining;
mod latch;
mod many_holds;
mod many_keys;
mod multi_lock;
mod multi_lock_crowd;
mod multi_lock_of;
mod polled;
mod quorum;
mod quorum_start;
mod quorum_votes;
mod run;
mod rw;
mod semaphore;
mod semaphore_redis;
mod siblings;
mod token_ttl;
mod turns;
mod values;
