//! Fault 16: the connection breaks after the server has granted a lock and before the answer arrives.
//!
//! - Promised: the client asks again and recognises its own hold, so it neither waits for itself nor counts twice.
//! - Seen: each lock within 1 s, with a lease of 40 s; every lock again within 1.8 s.

use lock_tests::crew::LOCKS;

use crate::prelude::*;

drill!(the_client_recognises_its_hold, Drill::start(), May::Delay, secs(3), async |drill| {
    // It asks by itself later than this test ends.
    let client =
        LockClient::builder().poll_cap(SOON * 2).connect(&drill.proxy.url()).await.unwrap();
    for job in Job::ALL {
        let name = own_name(job);
        drill.proxy.drop_next_reply_to(&name);
        let lost = drill.proxy.replies_dropped();
        let acquire = job.acquire(&client, &name, watched(SOON * 2));
        let guard = timeout(secs(5), acquire).await.expect("waits for itself").unwrap();
        assert_eq!(drill.proxy.replies_dropped(), lost + 1);
        if matches!(job, Job::Mutex | Job::Fair) {
            let hash = drill.server.client().hgetall(&name).await;
            let counts = hash.iter().filter(|(field, _)| *field != "mode");
            assert!(counts.map(|(_, count)| &count[..]).eq(["1"]), "{hash:?}");
        }
        guard.release().await.unwrap();
    }
    // And of whatever the crew sends.
    for name in LOCKS {
        let lost = drill.proxy.replies_dropped();
        drill.proxy.drop_next_reply_to(name);
        let is_lost = async || drill.proxy.replies_dropped() > lost;
        eventually(SOON, "the reply is lost", is_lost).await;
    }
});
