//! `kind` is the kind of the lock: as the store shows it, and as others find it.

use lock_runtime::admin::HoldKind;
use lock_runtime::{LockClient, LockError, distributed_lock};

type Seen = Result<Option<HoldKind>, LockError>;

async fn seen(client: &LockClient, name: &str) -> Seen {
    Ok(client.admin().inspect(name).await?.kind)
}

#[distributed_lock(key = "usual", client = client)]
async fn usual(client: &LockClient) -> Seen {
    seen(client, "usual").await
}

#[distributed_lock(key = "mutex", kind = mutex, client = client)]
async fn mutex(client: &LockClient) -> Seen {
    let lock = client.mutex("mutex");
    assert!(outside(async move { lock.try_lock().await }).await?.is_none());
    seen(client, "mutex").await
}

#[distributed_lock(key = "fair", kind = fair, client = client)]
async fn fair(client: &LockClient) -> Seen {
    seen(client, "fair").await
}

#[distributed_lock(key = "rw", kind = read, client = client)]
async fn read(client: &LockClient) -> Seen {
    let lock = client.rw_lock("rw");
    // Another reader is let in, a writer is not. From outside, or it would be re-entry.
    let (reader, writer) =
        outside(async move { (lock.try_read().await, lock.try_write().await) }).await;
    assert!(reader?.is_some() && writer?.is_none());
    seen(client, "rw").await
}

#[distributed_lock(key = "rw", kind = write, client = client)]
async fn write(client: &LockClient) -> Seen {
    let lock = client.rw_lock("rw");
    let reader = outside(async move { lock.try_read().await }).await;
    assert!(reader?.is_none());
    seen(client, "rw").await
}

#[distributed_lock(key = "permits", kind = semaphore(2), client = client)]
async fn permit(client: &LockClient, limit: u32) -> Seen {
    let all = client.semaphore("permits", limit);
    let (second, third) = outside(async move {
        let second = all.try_acquire().await;
        let third = all.try_acquire().await;
        (second, third)
    })
    .await;
    assert!(second?.is_some() && third?.is_none());
    seen(client, "permits").await
}

#[distributed_lock(key = "permits", kind = semaphore(limit), wait = none)]
async fn computed(limit: u32) -> Result<(), LockError> {
    Ok(())
}

/// In a task that knows nothing of the holds here.
async fn outside<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(future).await.expect("does not panic")
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert_eq!(usual(&client).await?, Some(HoldKind::Mutex));
            assert_eq!(mutex(&client).await?, Some(HoldKind::Mutex));
            assert_eq!(fair(&client).await?, Some(HoldKind::Fair));
            assert_eq!(read(&client).await?, Some(HoldKind::Read));
            assert_eq!(write(&client).await?, Some(HoldKind::Write));
            let two = 2;
            assert_eq!(permit(&client, two).await?, Some(HoldKind::Semaphore));

            let first = client.semaphore("permits", two).acquire().await?;
            computed(2).await?;
            assert!(computed(1).await.unwrap_err().is_busy());
            assert!(matches!(computed(0).await, Err(LockError::InvalidOptions(_))));
            first.release().await
        })
        .await
}
