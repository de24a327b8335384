//! A loss that only the release finds is logged, or returned instead of the body's value.

use lock_runtime::{LockClient, LockError, distributed_lock};

#[distributed_lock(key = "taken", client = client)]
async fn usual(client: &LockClient) -> Result<u8, LockError> {
    client.admin().force_release("taken").await?;
    Ok(1)
}

#[distributed_lock(key = "taken", client = client, on_release_lost = log)]
async fn logged(client: &LockClient) -> Result<u8, LockError> {
    client.admin().force_release("taken").await?;
    Ok(2)
}

#[distributed_lock(key = "taken", client = client, on_release_lost = error)]
async fn reported(client: &LockClient) -> Result<u8, LockError> {
    client.admin().force_release("taken").await?;
    Ok(3)
}

#[distributed_lock(key = "kept", client = client, on_release_lost = error)]
async fn not_lost(client: &LockClient) -> Result<u8, LockError> {
    Ok(if client.health().is_healthy() { 4 } else { 0 })
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    assert_eq!(usual(&client).await?, 1);
    assert_eq!(logged(&client).await?, 2);
    assert!(reported(&client).await.unwrap_err().is_lost());
    assert_eq!(not_lost(&client).await?, 4);
    Ok(())
}
