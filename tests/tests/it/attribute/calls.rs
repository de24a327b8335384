//! `#[distributed_lock]` at run time; what it refuses to compile is in `tests/ui`.

use crate::prelude::*;

#[distributed_lock(key = "acct:{id}", client = locks)]
async fn post(locks: &LockClient, id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "acct:{id}", client = locks)]
async fn post_twice(locks: &LockClient, id: u64) -> Result<(), LockError> {
    post(locks, id).await?;
    post(locks, id).await
}

/// S-6: a nested annotated call on the same key sends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_call_sends_nothing() {
    let (server, locks) = world().await;
    post(&locks, 7).await.unwrap();
    server.reset_stats().await;
    post_twice(&locks, 7).await.unwrap();
    let calls = server.command_calls().await;
    // One to take and one to give back, for three calls.
    assert_eq!((calls["publish"], calls["time"]), (1, 1), "{calls:?}");
    assert!(!server.client().exists("acct:7").await);
}

#[distributed_lock(key = "slow", client = locks, lease = "200ms")]
async fn too_slow(locks: &LockClient, ended: &AtomicU32) -> Result<(), LockError> {
    sleep(secs(60)).await;
    ended.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

#[distributed_lock(key = "slow", client = locks, lease = "200ms", on_lost = finish)]
async fn slow_but_finished(locks: &LockClient, ended: &AtomicU32) -> Result<(), LockError> {
    sleep(ms(400)).await;
    ended.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// S-13: the default cuts the body off, `finish` lets it end; both report.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_reported() {
    let (locks, ended) = (LockClient::in_memory(), AtomicU32::new(0));
    let error = too_slow(&locks, &ended).await.unwrap_err();
    assert!(error.is_lost() && ended.load(Ordering::SeqCst) == 0, "{error:?}");
    let error = slow_but_finished(&locks, &ended).await.unwrap_err();
    assert!(error.is_lost() && ended.load(Ordering::SeqCst) == 1, "{error:?}");
}
