//! Fault 65: two of the three servers of a quorum stand still while the third goes on.
//!
//! - Promised: a renewal that only the third confirms is none: each hold is lost at its own deadline, and no client is granted
//!   one; every party has the mutex again within 4 s.
//! - Seen: 0.1 to 0.2 s; the hold is lost at its deadline.

use crate::prelude::*;

drill!(
    a_minority_is_none,
    Drill::of_a_quorum(3),
    May::Delay,
    secs(4),
    async |drill| {
        let held = drill.near.client.mutex("held").with(watched(LEASE)).lock().await.unwrap();
        drill.nodes[1].pause();
        drill.nodes[2].pause();
        let lost = timeout(LEASE + secs(1), held.lost()).await.expect("renewed by a minority");
        assert!(matches!(lost, LockError::Lost { cause: LossCause::Deadline, .. }), "{lost:?}");
        let grants = [drill.near.grants(), drill.far.grants()];
        sleep(LEASE).await;
        assert_eq!([drill.near.grants(), drill.far.grants()], grants, "granted by a minority");
        drill.nodes[1].resume();
        drill.nodes[2].resume();
        held
    },
    async |_, held: LockGuard| assert!(held.release().await.unwrap_err().is_lost())
);
