//! A skipped job is one that another process runs: without a client nobody would, so that is no skip.
//!
//! A program of its own, because no client may be installed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use futures_util::FutureExt;
use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn unit() {}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn option() -> Option<u32> {
    Some(1)
}

type Alias = Option<u32>;

#[distributed_lock(keys = ["nightly", "hourly"], on_busy = skip, policy = "nights", wait = "1s")]
async fn with_everything() -> Alias {
    Some(1)
}

#[distributed_lock(key = "nightly", on_busy = skip, guard = hold)]
async fn guarded() -> Option<u64> {
    Some(hold.token().get())
}

#[distributed_lock(key = "{part}", on_busy = skip)]
async fn keyed(part: &str) -> Option<u32> {
    Some(1)
}

#[distributed_lock(key = "nightly", on_busy = skip)]
fn future() -> impl Future<Output = Option<u32>> + Send {
    async { Some(1) }
}

#[distributed_lock(key = "nightly", on_busy = skip)]
#[distributed_lock(key = "hourly", on_busy = skip)]
async fn stacked() -> Option<u32> {
    Some(1)
}

#[distributed_lock(key = "nightly", on_busy = skip, when = wanted)]
async fn sometimes(wanted: bool) -> Option<u32> {
    Some(1)
}

#[distributed_lock(key = "nightly", on_busy = skip, client = client)]
async fn named(client: &LockClient) -> Option<u32> {
    Some(1)
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn result() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn result_of_option() -> Result<Option<u32>, LockError> {
    Ok(Some(1))
}

#[distributed_lock(key = "nightly", on_busy = fallback(instead))]
async fn fallback() -> Result<u32, LockError> {
    Ok(1)
}

async fn instead() -> Result<u32, LockError> {
    Ok(2)
}

struct Job;

impl Job {
    #[distributed_lock(key = "nightly", on_busy = skip)]
    async fn run(&self) -> Option<u32> {
        Some(1)
    }
}

thread_local! {
    /// Where the last panic of this thread was.
    static PLACE: RefCell<Option<(String, u32)>> = const { RefCell::new(None) };
}

/// What a call panics with, and where.
async fn panic_of<T: std::fmt::Debug>(call: impl Future<Output = T>) -> (String, (String, u32)) {
    let outcome = AssertUnwindSafe(call).catch_unwind().await;
    let payload: Box<dyn Any + Send> = outcome.expect_err("it does not panic");
    let message = payload.downcast::<String>().expect("a message made of text");
    (*message, PLACE.take().expect("a place"))
}

fn remember_places() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| (place.file().to_owned(), place.line()));
        PLACE.set(place);
    }));
}

/// S-32: the sentence of `NoClient`, at the function that lacks the client.
#[tokio::test]
async fn a_job_that_no_process_could_run_is_not_skipped() {
    remember_places();
    let said = |function: &str| {
        format!(
            "no lock client for skip_without_client::{function}: call `client.install()` at \
             start-up, wrap the call in `client.scope(…)`, or name one with `client = …`"
        )
    };
    let here = |(file, line): (String, u32)| file == file!() && line < line!();
    macro_rules! panics {
        ($($name:literal: $call:expr;)*) => {$(
            let (message, place) = panic_of($call).await;
            assert_eq!(message, said($name));
            assert!(here(place.clone()), "{}: {place:?}", $name);
        )*};
    }
    panics! {
        "unit": unit();
        "option": option();
        "with_everything": with_everything();
        "guarded": guarded();
        "keyed": keyed("x");
        // The key is wrong, too; that is for a program that has a client.
        "keyed": keyed("");
        "future": future();
        "stacked": stacked();
        "sometimes": sometimes(true);
        "run": Job.run();
    }
    let _ = panic::take_hook();
}

/// Where there is room for the error, it is one; and where no lock is wanted, no client is needed.
#[tokio::test]
async fn an_error_is_one_as_ever() {
    let missing = |error: LockError| matches!(error, LockError::NoClient { .. });
    assert!(missing(result().await.unwrap_err()));
    assert!(missing(result_of_option().await.unwrap_err()));
    assert!(missing(fallback().await.unwrap_err()), "a fallback is for busy locks");
    assert_eq!(sometimes(false).await, Some(1));
}

#[tokio::test]
async fn with_a_client_it_runs() {
    let client = LockClient::in_memory();
    assert_eq!(named(&client).await, Some(1));
    assert_eq!(client.scope(option()).await, Some(1));
    assert_eq!(client.scope(stacked()).await, Some(1));
    assert_eq!(client.scope(sometimes(true)).await, Some(1));
    let held: LockGuard = client.mutex("nightly").lock().await.unwrap();
    assert_eq!(client.scope(option()).await, None, "busy is skipped");
    assert_eq!(client.scope(fallback()).await.unwrap(), 2);
    held.release().await.unwrap();
    // In a scope, only what runs inside has it.
    let task = client.scope(async { tokio::spawn(option()).await }).await;
    assert!(task.unwrap_err().is_panic());
    let task = client.scope(async { tokio::spawn(lock_runtime::scope::inherit(option())).await });
    assert_eq!(task.await.unwrap(), Some(1));
}

/// A client that is shut down, and a configuration that lacks a policy, are logged as errors.
#[tokio::test]
async fn other_failures_are_logged() {
    let client = LockClient::in_memory();
    assert_eq!(client.scope(with_everything()).await, None);
    client.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(client.scope(option()).await, None);
}
