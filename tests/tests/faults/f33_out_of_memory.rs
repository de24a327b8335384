//! Fault 33: the server is full and refuses all that needs memory (`maxmemory` with `noeviction`).
//!
//! - Promised: an acquire fails at once and says why; holds are renewed and released all the same; no lock is lost; every
//!   lock as soon as there is memory.
//! - Seen: that; every lock within 0.2 s.

use crate::prelude::*;

drill!(holds_are_kept_and_released, Drill::start(), May::Delay, secs(2), async |drill| {
    let raw = drill.server.client();
    let lease = LEASE * 3;
    let held = hold_each(&drill.near.client, lease).await;
    raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    sleep(LEASE * 7 / 4).await;
    all_are_renewed(&held, LEASE * 3 / 2, lease);
    // Not beside a request of a crew in one script, which may write when that has.
    let client = quiet_client(drill).await;
    for job in Job::ALL {
        let name = format!("other:{job:?}");
        let start = Instant::now();
        let acquired = job.acquire(&client, &name, watched(LEASE)).await;
        let Err(LockError::Store(error)) = acquired else { panic!("{job:?}: {acquired:?}") };
        assert_eq!(error.kind(), StoreErrorKind::OutOfMemory, "{error:?}");
        assert!(start.elapsed() < patience(secs(2)), "{:?}", start.elapsed());
    }
    release_each(held).await;
    raw.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
});
