//! Fault 18: the answers of the server take longer than a lease.
//!
//! - Promised: a grant whose lease is over when it arrives is none; the client gives it back, and the acquire ends with its
//!   `wait`.
//! - Seen: no lock acquired; all free for others 0.7 to 1.3 s after the network is fast again.

use futures_util::future::join_all;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_grant_is_none() {
    let mut drill = Drill::start().await;
    // This one waits for answers for longer than the crew's.
    let patient = LockClient::builder().command_timeout(LEASE * 3).store_patience(SOON);
    let patient = patient.connect(&drill.proxy.url()).await.unwrap();
    let slow = async |drill: &mut Drill| {
        // The end of a lease is not published.
        let released = drill.server.subscribe_log("redisson_lock__channel:{own:Mutex}").await;
        drill.proxy.delay(LEASE * 6 / 10);
        let options = LockOptions::new().lease(Lease::Fixed(LEASE)).wait(LEASE * 2);
        let acquires = Job::ALL.map(|job| {
            let (patient, options) = (patient.clone(), options.clone());
            async move { job.acquire(&patient, &own_name(job), options).await }
        });
        for outcome in join_all(acquires).await {
            let error = outcome.unwrap_err();
            assert!(error.is_timeout() || error.is_retryable(), "{error:?}");
        }
        let granted = drill.server.client().exists("redisson_lock_token:{own:Mutex}").await;
        assert!(granted, "the server granted nothing: there was no late answer");
        drill.proxy.pass();
        eventually(SOON, "the late grant is given back", async || !released.payloads().is_empty())
            .await;
    };
    drill.fault(May::Delay, slow).await;
    soon_free(&quiet_client(&drill).await).await;
    assert!(patient.shutdown(SOON).await.is_clean());
    drill.end(secs(3)).await;
}
