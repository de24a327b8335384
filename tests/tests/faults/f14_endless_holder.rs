//! Fault 14: code that holds a lock hangs for ever, while its lease is renewed.
//!
//! - Promised: with `max_hold` renewals end after that time, so one lease later at most the hold ends and the code is cut off;
//!   without it the lock stays held, and waiters are told for how long its lease still lasts.
//! - Seen: the code was cut off 2.3 s after it began, with a `max_hold` of 1.5 s and a lease of 1 s.

use std::future::pending;

use futures_util::future::join_all;

use crate::prelude::*;

drill!(max_hold_ends_it, async |drill| {
    let bounded = watched(LEASE).max_hold(LEASE * 3 / 2);
    let hangs = Job::ALL.map(|job| {
        let (client, options) = (drill.near.client.clone(), bounded.clone());
        async move {
            let guard = job.acquire(&client, &own_name(job), options).await.unwrap();
            let since = Instant::now();
            let lost = guard.run(pending::<Result<(), LockError>>()).await;
            assert!(lost.unwrap_err().is_lost(), "{job:?}");
            since.elapsed()
        }
    });
    for held in timeout(SOON, join_all(hangs)).await.expect("hangs on") {
        eprintln!("ended after {held:?}");
        assert!(held > LEASE && held < LEASE * 7 / 2, "{held:?}");
    }
    let lease = LEASE * 3;
    let held = hold_each(&drill.near.client, lease).await;
    sleep(LEASE * 7 / 4).await;
    all_are_renewed(&held, LEASE * 3 / 2, lease);
    let options = watched(LEASE).wait(ms(100));
    let name = own_name(Job::Mutex);
    let error = Job::Mutex.acquire(&quiet_client(drill).await, &name, options).await.unwrap_err();
    assert!(error.is_timeout() && error.holder_remaining().unwrap() <= lease, "{error:?}");
    release_each(held).await;
    // A permit that was not given back goes when a permit is acquired after its lease.
    release_each(hold_each(&drill.far.client, LEASE * 10).await).await;
});
