//! How processes share a lock that all of them want all the time, where notices have a connection of their own (S-14).

use crate::prelude::*;
use crate::support::writers::reads_beside_writers;
use crate::topology::cluster::world::{client, shared};

// S-27: readers that waited for a write go before the next writer.
test_with!(readers_have_their_turns_beside_steady_writers, shared(), async |cluster| {
    let writers = [client(cluster).await, client(cluster).await];
    reads_beside_writers(&writers, &[client(cluster).await, writers[0].clone()], "phases").await;
});
