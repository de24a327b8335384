//! Fault 6: a program drops the future of an acquire after the request has gone out and before the answer has come.
//!
//! - Promised: the client releases what the server may have granted, at once; other locks and tasks notice nothing.
//! - Seen: each lock free for others within 0.1 s, with a lease of 40 s.

use crate::prelude::*;

drill!(nothing_stays_held, async |drill| {
    let one_way = ms(20);
    drill.proxy.delay(one_way);
    let mut dropped = 0;
    for part in [1, 2, 3] {
        for job in Job::ALL {
            let name = own_name(job);
            let acquire = job.acquire(&drill.far.client, &name, watched(SOON * 2));
            dropped += usize::from(timeout(one_way * part / 2, acquire).await.is_err());
        }
    }
    assert!(dropped > Job::ALL.len(), "nothing was on its way: {dropped}");
    soon_free(&drill.near.client).await;
    drill.proxy.pass();
});
