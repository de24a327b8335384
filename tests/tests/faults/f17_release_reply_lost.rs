//! Fault 17: the connection breaks after the server has released a lock and before the answer arrives.
//!
//! - Promised: the release is repeated and is no error, since the lock was released in time.
//! - Seen: that, within 0.2 s.

use crate::prelude::*;

drill!(the_release_is_no_error, Drill::start(), May::Delay, secs(3), async |drill| {
    for job in Job::ALL {
        let name = own_name(job);
        let acquire = job.acquire(&drill.far.client, &name, watched(SOON * 2));
        let guard = acquire.await.unwrap();
        drill.proxy.drop_next_reply_to(&name);
        let lost = drill.proxy.replies_dropped();
        timeout(secs(5), guard.release()).await.expect("hangs").unwrap();
        assert_eq!(drill.proxy.replies_dropped(), lost + 1, "{job:?}");
    }
    soon_free(&drill.near.client).await;
});
