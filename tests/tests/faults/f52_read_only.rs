//! Fault 52: the server has become a replica: it refuses all writes (READONLY).
//!
//! - Promised: an acquire asks again until its wait is over, and says then what the server says; holds whose lease lasts longer are
//!   kept; each task pauses between its requests; every lock within 4 s.
//! - Seen: 0.9 to 2 s: the clients look for another master and connect anew. 130 to 160 refusals a second, of 39
//!   tasks.

use crate::prelude::*;

// No master is there to follow, so it keeps its data.
refusal!("READONLY", "PING", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE");
