//! What is polled after its end panics, as tokio's futures do; and what only looks changes nothing.

use std::future::poll_fn;
use std::panic::catch_unwind;
use std::task::Waker;

use metrics::with_local_recorder;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::prelude::*;

/// Polls to the end, and once more; what the panic says.
async fn polled_again<F: Future>(future: F) -> String {
    let mut future = Box::pin(future);
    poll_fn(|cx| future.as_mut().poll(cx).map(drop)).await;
    let again = |future: Pin<&mut F>| future.poll(&mut Context::from_waker(Waker::noop()));
    let panic = catch_unwind(AssertUnwindSafe(|| again(future.as_mut()).map(drop)));
    let Err(panic) = panic else { return "no panic".to_owned() };
    panic.downcast_ref::<&str>().map_or_else(
        || panic.downcast_ref::<String>().cloned().unwrap_or_default(),
        |text| (*text).to_owned(),
    )
}

#[distributed_lock(key = "annotated", client = client)]
async fn annotated(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_finished_future_panics_when_polled() {
    let client = LockClient::in_memory();
    let lock = client.mutex("a");
    assert_eq!(polled_again(lock.lock()).await, "`Acquire` polled after completion");
    let invalid = client.mutex("").lock();
    assert_eq!(polled_again(invalid).await, "`Acquire` polled after completion");
    let guard = lock.lock().await.unwrap();
    assert_eq!(polled_again(guard.run(lock.lock())).await, "`Run` polled after completion");
    let nested = guard.run(lock.lock()).await.unwrap().unwrap();
    assert_eq!(polled_again(nested.release()).await, "`Release` polled after completion");
    assert_eq!(polled_again(guard.release()).await, "`Release` polled after completion");
    let owned = lock.lock().await.unwrap().run_owned(async {});
    assert_eq!(polled_again(owned).await, "`RunOwned` polled after completion");
    let brief = lock.with(fixed(ms(200))).lock().await.unwrap();
    let lost = brief.run(pending::<()>());
    assert_eq!(polled_again(lost).await, "`Run` polled after completion");
    drop(brief);
    // An `async fn` of the user's own stands around it.
    assert!(polled_again(annotated(&client)).await.contains("resumed after completion"));
}

/// Whoever prints a guard whose deadline has passed does not thereby declare it lost: no state, no
/// metric, no line of the log and no waiter changes.
#[tokio::test(start_paused = true)]
async fn printing_a_guard_changes_nothing() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let clock = Clock::tokio();
    let client = LockClient::builder().clock(clock.clone()).in_memory().unwrap();
    let guard = client.mutex("a").with(fixed(ms(200))).lock().await.unwrap();
    let watch = guard.watch();
    let lost = lock_tests::spawn(async move { watch.lost().await });
    tokio::task::yield_now().await;
    // The clock jumps; no timer has fired yet.
    clock.advance(secs(1));
    let text = with_local_recorder(&recorder, || format!("{guard:?} {:?}", guard.watch()));
    assert!(text.contains("remaining: 0ns"), "{text}");
    let is_counted = |count: &str| recorder.handle().render().contains(count);
    assert!(!is_counted("lock_lost_total"), "printing counts a loss");
    assert_eq!(with_local_recorder(&recorder, || guard.remaining()), Duration::ZERO);
    assert!(is_counted(r#"lock_lost_total{policy="none",kind="mutex",cause="deadline"} 1"#));
    assert!(lost.await.unwrap().is_lost());
}
