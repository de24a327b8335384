//! Fault 54: the server has fewer replicas than `min-replicas-to-write` (NOREPLICAS).
//!
//! - Promised: as for [fault 52](../tests/tests/faults/f52_read_only.rs).
//! - Seen: 0.2 to 0.6 s; 1 500 refusals a second, of 39 tasks.

use crate::prelude::*;

refusal!(
    "NOREPLICAS",
    "PING",
    "CONFIG SET min-replicas-to-write 1",
    "CONFIG SET min-replicas-to-write 0"
);
