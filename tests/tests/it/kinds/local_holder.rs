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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_names_a_holder_of_this_process() {
    let (_server, redis) = world().await;
    for client in [&redis, &LockClient::in_memory()] {
        for (kind, names) in [
            (LockKind::Mutex, &["mutex"][..]),
            (LockKind::Fair, &["fair"]),
            (LockKind::Write, &["rw"]),
            (LockKind::Semaphore(1), &["permit"]),
            (LockKind::Mutex, &["a", "b"]),
        ] {
            let lock = |options| client.any_lock(kind, names.iter().copied()).with(options);
            let start = Instant::now();
            let _held = lock(LockOptions::default()).lock().await.unwrap();
            let (error, holder) = late(async |options| lock(options).lock().await).await;
            let holder = holder.unwrap_or_else(|| panic!("{names:?}: {error}"));
            let site = holder.site.as_deref().unwrap_or_else(|| panic!("{names:?}: {error}"));
            assert!(site.contains(HERE), "{names:?}: {site}");
            let since = ms(50)..=start.elapsed();
            assert!(since.contains(&holder.held_for), "{names:?}: {holder:?}");
            assert!(error.to_string().ends_with(&format!("; {holder}")), "{names:?}: {error}");
        }
        // Behind a hold of another kind, which asks the store.
        let _read = client.rw_lock("sides").read().await.unwrap();
        let write = async |options| client.rw_lock("sides").with(options).write().await;
        let (error, holder) = late(write).await;
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
