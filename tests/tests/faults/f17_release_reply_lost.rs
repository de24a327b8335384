//! Fault 17: the connection breaks after the server has released a lock and before the answer arrives.
//!
//! - Promised: the release is repeated and is no error, since the lock was released in time.
//! - Seen: that, within 0.2 s.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_release_is_no_error() {
    let mut drill = Drill::start().await;
    let lose = async |drill: &mut Drill| {
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
    };
    drill.fault(May::Delay, lose).await;
    drill.end(secs(3)).await;
}
