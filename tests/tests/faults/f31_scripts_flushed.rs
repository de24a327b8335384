//! Fault 31: the server forgets all scripts again and again (SCRIPT FLUSH), as after a restart.
//!
//! - Promised: the client sends them again, for acquires, renewals and releases; nothing else happens.
//! - Seen: no lock lost, none free for 3 s while a task waits.

use crate::prelude::*;

drill!(nothing_happens, async |drill| {
    // Renewed each two seconds.
    let lease = LEASE * 6;
    let held = hold_each(&drill.near.client, lease).await;
    let until = Instant::now() + LEASE * 7 / 2;
    while Instant::now() < until {
        drill.server.client().cmd(&["SCRIPT", "FLUSH"]).await;
        sleep(ms(20)).await;
    }
    all_are_renewed(&held, LEASE * 3, lease);
    release_each(held).await;
});
