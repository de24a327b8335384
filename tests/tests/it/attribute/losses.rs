//! What an annotated function makes of a lost lock where it does not return `LockError::Lost` (S-13).

use crate::prelude::*;

fn trial() -> LockClient {
    let text = "[lock.policies]\ntrial = { enforce = false, lease = '200ms' }\n\
                watched = { enforce = false, at_least = '1m' }\ncheckout = {}";
    LockClient::builder().config(LockConfig::from_toml(text).unwrap()).in_memory().unwrap()
}

#[distributed_lock(key = "t", policy = "trial", client = client)]
async fn longer_than_its_lease(client: &LockClient) -> Result<usize, LockError> {
    let held = client.admin().held().len();
    sleep(ms(600)).await;
    Ok(held)
}

#[distributed_lock(key = "t", policy = "trial", client = client, on_release_lost = error)]
async fn loses_it(client: &LockClient) -> Result<bool, LockError> {
    client.admin().force_release("t").await
}

#[distributed_lock(key = "t", policy = "trial", client = client, guard = hold)]
async fn names_it(client: &LockClient) -> Result<u64, LockError> {
    sleep(ms(600)).await;
    Ok(hold.token().get())
}

/// What is not enforced runs in any case: also to its end, and whatever becomes of the lock. A body that
/// names its hold has asked for one.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_is_not_cut_off() {
    let client = trial();
    assert_eq!(longer_than_its_lease(&client).await.unwrap(), 1);
    assert!(loses_it(&client).await.unwrap());
    assert!(names_it(&client).await.unwrap_err().is_lost());
}

/// Rows of `name(parameters) [arguments]`: functions that say how many holds there are while they run.
macro_rules! held {
    ($($name:ident($($parameter:ident: $ty:ty),*) [$($arguments:tt)*];)*) => {$(
        #[distributed_lock(client = client, $($arguments)*)]
        async fn $name(client: &LockClient $(, $parameter: $ty)*) -> Result<usize, LockError> {
            Ok(client.admin().held().len())
        }
    )*};
}

held! {
    named(id: &str) [key = "t:{id}", policy = "trial"];
    named_and_enforced(id: &str) [key = "t:{id}", policy = "checkout"];
    counted(permits: u32) [key = "t", policy = "trial", kind = semaphore(permits)];
    contradicts() [key = "t", policy = "watched", lease = "9s"];
}

#[distributed_lock(key = "t:{id}", policy = "trial", client = client, guard = hold)]
async fn named_and_held(client: &LockClient, id: &str) -> Result<u64, LockError> {
    Ok(hold.token().get())
}

#[distributed_lock(key = "t:{id}", policy = "trial")]
async fn homeless(id: &str) -> Result<(), LockError> {
    Ok(())
}

/// What is wrong with a call is no reason to stop it either, if its policy is known: the log has it.
#[tokio::test]
async fn what_is_not_enforced_needs_no_name() {
    let client = trial();
    let log = Log::start_at(tracing::Level::INFO);
    assert_eq!(named(&client, "1").await.unwrap(), 1);
    assert_eq!(named(&client, "").await.unwrap(), 0);
    assert_eq!(counted(&client, 0).await.unwrap(), 0);
    assert_eq!(contradicts(&client).await.unwrap(), 0);
    let text = log.text();
    // One line a second for each of the two policies.
    assert_eq!(text.matches("runs without the lock").count(), 2, "{text}");
    assert!(text.contains("empty") && text.contains("at_least"), "{text}");

    let refused = |error: LockError| matches!(error, LockError::InvalidKey { .. });
    assert!(refused(named_and_held(&client, "").await.unwrap_err()));
    assert!(refused(named_and_enforced(&client, "").await.unwrap_err()));
    assert!(refused(homeless("").await.unwrap_err()));
    let error = homeless("1").await.unwrap_err();
    assert!(matches!(error, LockError::NoClient { .. }), "{error:?}");
}

#[distributed_lock(key = "j", client = client, lease = "200ms", on_busy = skip)]
async fn job(client: &LockClient) -> Option<()> {
    pending().await
}

#[distributed_lock(key = "j", client = client, lease = "200ms", on_busy = skip)]
async fn job_with_errors(client: &LockClient) -> Result<(), LockError> {
    pending().await
}

/// Only a busy lock is skipped. A job that was cut off has run in part: the log, if it is the only place for it, does not
/// call it skipped.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_a_busy_one() {
    let error = job_with_errors(&LockClient::in_memory()).await.unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    let log = Log::start_at(tracing::Level::INFO);
    assert_eq!(job(&LockClient::in_memory()).await, None);
    let text = log.text();
    assert!(text.contains("ERROR") && text.contains("its lease ran out"), "{text}");
    assert!(!text.contains("skipped"), "{text}");
}
