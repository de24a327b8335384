//! Fault 10: a runtime ends while guards of its client are alive; they are dropped later, elsewhere.
//!
//! - Promised: `shutdown` before the end releases what was dropped; without it, the drop neither blocks nor panics, and
//!   the locks are free when their lease is over.
//! - Seen: at once after `shutdown`, else after 0.6 to 1 s.

use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

use crate::prelude::*;

drill!(the_lease_bounds_it, async |drill| {
    let url = drill.proxy.url();
    let with_shutdown = url.clone();
    let shut_down = move || {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let client = LockClient::connect(&with_shutdown).await.unwrap();
            drop(hold_each(&client, SOON * 2).await);
            assert!(client.shutdown(SOON).await.is_clean());
        });
    };
    spawn_blocking(shut_down).await.unwrap();
    soon_free(&drill.near.client).await;
    let end = move || {
        let runtime = Runtime::new().unwrap();
        let held = runtime.block_on(async {
            let client = LockClient::connect(&url).await.unwrap();
            hold_each(&client, LEASE).await
        });
        drop(runtime);
        held
    };
    let held = spawn_blocking(end).await.unwrap();
    let ended = Instant::now();
    // Where there is no runtime at all.
    std::thread::spawn(move || drop(held)).join().unwrap();
    release_each(hold_each(&drill.near.client, LEASE * 10).await).await;
    let waited = ended.elapsed();
    eprintln!("free {waited:?} after the end");
    assert!(waited < patience(LEASE + secs(4)), "{waited:?}");
    // A permit that was not given back goes when a permit is acquired after its lease.
    sleep((LEASE + ms(100)).saturating_sub(waited)).await;
    release_each(hold_each(&drill.near.client, LEASE * 10).await).await;
});
