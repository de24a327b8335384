//! Fault 9: a program drops the future of a release, before and after the request has gone out.
//!
//! - Promised: the client finishes the release.
//! - Seen: each lock free for others within 0.2 s, with a lease of 40 s.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_finishes_it() {
    let mut drill = Drill::start().await;
    let one_way = ms(20);
    drill.proxy.delay(one_way);
    for part in [0, 1, 3] {
        let mut dropped = 0;
        for guard in hold_each(&drill.far.client, SOON * 2).await {
            dropped += usize::from(timeout(one_way * part / 2, guard.release()).await.is_err());
        }
        assert!(dropped > 0, "all were released in time");
        soon_free(&drill.near.client).await;
    }
    // The first poll of a release writes the request, if there is a connection.
    let cut_off = async |drill: &mut Drill| {
        let held = hold_each(&drill.far.client, SOON * 2).await;
        drill.proxy.refuse();
        drill.proxy.sever_all();
        for guard in held {
            assert!(
                timeout(one_way, guard.release()).await.is_err(),
                "released without a connection"
            );
        }
        drill.proxy.pass();
        soon_free(&drill.near.client).await;
    };
    drill.fault(May::Delay, cut_off).await;
    drill.end(secs(3)).await;
}
