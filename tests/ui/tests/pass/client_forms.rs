//! `client` sees `self` and the arguments; without it the enclosing or the installed one serves.

use std::sync::Arc;

use lock_runtime::{LockClient, LockError, distributed_lock};

struct Shop {
    client: LockClient,
    shared: Arc<LockClient>,
}

impl Shop {
    fn client(&self) -> &LockClient {
        &self.client
    }

    #[distributed_lock(key = "x", wait = none, client = self.client)]
    async fn field(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "x", wait = none, client = &self.client)]
    async fn reference(self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "x", wait = none, client = self.shared)]
    async fn shared(&mut self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "x", wait = none, client = self.client())]
    async fn method(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "x", wait = none, client = client)]
async fn argument(client: &LockClient) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "x", wait = none, client = client)]
async fn moved(client: LockClient) -> Result<LockClient, LockError> {
    Ok(client)
}

#[distributed_lock(key = "x", wait = none)]
async fn unnamed() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let none = unnamed().await.unwrap_err();
    assert!(matches!(&none, LockError::NoClient { .. }));
    assert!(none.to_string().contains("unnamed"), "{none}");

    // Busy is the proof that this very client was asked.
    let client = LockClient::in_memory();
    let held = client.mutex("x").lock().await?;
    let mut shop = Shop { client: client.clone(), shared: Arc::new(client.clone()) };
    for answer in [
        shop.field().await,
        shop.shared().await,
        shop.method().await,
        shop.reference().await,
        argument(&client).await,
        moved(client.clone()).await.map(drop),
        client.scope(unnamed()).await,
    ] {
        assert!(answer.unwrap_err().is_busy());
    }
    held.release().await
}
