//! A wait that ends in vain behind a hold of the same process names it: the place in the program, and since when.

use lock_runtime::error::LocalHolder;

use crate::prelude::*;

const HERE: &str = "kinds/local_holder.rs:";

/// The error of an acquire that waits in vain, and the local holder that it names.
async fn late<G>(
    acquire: impl AsyncFn(LockOptions) -> Result<G, LockError>,
) -> (LockError, Option<LocalHolder>) {
    let brief = LockOptions::new().wait(ms(60));
    let Err(error) = acquire(brief).await else { panic!("no task has released it") };
    let LockError::Timeout { local_holder, .. } = &error else { panic!("{error:?}") };
    let holder = local_holder.as_deref().cloned();
    (error, holder)
}

async fn is_named<G>(what: &str, acquire: impl AsyncFn(LockOptions) -> Result<G, LockError>) {
    let start = Instant::now();
    let Ok(held) = acquire(LockOptions::default()).await else { panic!("{what} is not free") };
    let (error, holder) = late(&acquire).await;
    let holder = holder.unwrap_or_else(|| panic!("{what}: {error}"));
    let site = holder.site.as_deref().unwrap_or_else(|| panic!("{what}: {error}"));
    assert!(site.contains(HERE), "{what}: {site}");
    assert!(holder.held_for >= ms(50) && holder.held_for <= start.elapsed(), "{what}: {holder:?}");
    assert!(error.to_string().ends_with(&format!("; {holder}")), "{what}: {error}");
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_names_a_holder_of_this_process() {
    let (_server, redis) = world().await;
    for client in [&redis, &LockClient::in_memory()] {
        is_named("mutex", async |options| client.mutex("mutex").with(options).lock().await).await;
        is_named("fair", async |options| client.fair_mutex("fair").with(options).lock().await)
            .await;
        is_named("write", async |options| client.rw_lock("rw").with(options).write().await).await;
        is_named("permit", async |options| {
            client.semaphore("permit", 1).with(options).acquire().await
        })
        .await;
        is_named("multi", async |options| client.multi_lock(["a", "b"]).with(options).lock().await)
            .await;
        // Behind a hold of another kind, which asks the store.
        let _read = client.rw_lock("sides").read().await.unwrap();
        let (error, holder) =
            late(async |options| client.rw_lock("sides").with(options).write().await).await;
        assert!(holder.is_some_and(|holder| holder.held_for < SOON), "{error}");
    }
}

/// Of another process's hold there is no place in this program, also if this process had the lock just before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_behind_another_process_names_none() {
    let (_server, client, other) = world_of_two().await;
    client.mutex("a").lock().await.unwrap().release().await.unwrap();
    let _held = other.mutex("a").lock().await.unwrap();
    let (error, holder) = late(async |options| client.mutex("a").with(options).lock().await).await;
    assert_eq!(holder, None, "{error}");
    assert!(!error.to_string().contains("this process"), "{error}");
}
