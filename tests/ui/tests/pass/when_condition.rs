//! `when = false` runs the body without the lock.

use lock_runtime::{LockClient, LockError, distributed_lock};

struct Import {
    shared: bool,
}

impl Import {
    #[distributed_lock(key = "import", when = self.shared, wait = none)]
    async fn run(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "import", when = self.is_shared(&name), on_busy = skip)]
    async fn named(self, name: String) -> Option<String> {
        Some(name)
    }

    fn is_shared(&self, name: &str) -> bool {
        self.shared && !name.is_empty()
    }
}

#[distributed_lock(key = "{name}", when = !name.is_empty(), wait = none)]
async fn unnamed(name: &str) -> Result<usize, LockError> {
    Ok(name.len())
}

#[distributed_lock(key = "import", when = shared, wait = none, on_busy = fallback(other))]
async fn replaced(shared: bool) -> Result<&'static str, LockError> {
    Ok("body")
}

async fn other(_: bool) -> Result<&'static str, LockError> {
    Ok("other")
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    // Not even a client is needed, and nothing is wrong with a key that nobody uses.
    let alone = Import { shared: false };
    alone.run().await?;
    assert_eq!(unnamed("").await?, 0);
    assert!(matches!(unnamed("x").await, Err(LockError::NoClient { .. })));

    let client = LockClient::in_memory();
    client
        .scope(async {
            let held = client.mutex("import").lock().await?;
            alone.run().await?;
            assert!(Import { shared: true }.run().await.unwrap_err().is_busy());
            assert_eq!(alone.named("x".into()).await.as_deref(), Some("x"));
            assert_eq!(Import { shared: true }.named("x".into()).await, None);
            assert_eq!(Import { shared: true }.named(String::new()).await.as_deref(), Some(""));
            assert_eq!(replaced(true).await?, "other");
            assert_eq!(replaced(false).await?, "body");
            held.release().await?;
            assert_eq!(replaced(true).await?, "body");
            Ok(())
        })
        .await
}
