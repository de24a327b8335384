//! Fault 11: a process that has used a client forks, and both sides lock afterwards, with the same state of all random
//! numbers.
//!
//! - Promised: a client that is made after the fork has an id of its own, so the two exclude each other. (A client of before
//!   the fork is of no use in the child: no tokio runtime survives a fork.)
//! - Seen: two ids, and a clean history.

use lock_tests::preload::Fork;

use crate::prelude::*;

drill!(the_two_exclude_each_other, async |drill| {
    let (start, fork) = (drill.process_start(), Fork::new());
    let mut forking = start.spawn("fork", &fork.envs());
    let ids = [forking.next_line(SOON).await, forking.next_line(SOON).await];
    assert_ne!(ids[0], ids[1]);
    forking.wait(SOON).await;
});
