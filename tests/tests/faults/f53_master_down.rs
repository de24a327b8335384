//! Fault 53: the server is a replica without its master, and refuses to answer at all (MASTERDOWN).
//!
//! - Promised: as for [fault 52](../tests/tests/faults/f52_read_only.rs).
//! - Seen: 0.7 to 1.7 s: the clients look for another master and connect anew. 100 to 110 refusals a second, of 39
//!   tasks.

use crate::prelude::*;

refusal!(
    "MASTERDOWN",
    "CONFIG SET replica-serve-stale-data no",
    "REPLICAOF 127.0.0.1 1",
    "REPLICAOF NO ONE"
);
