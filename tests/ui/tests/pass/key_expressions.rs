//! Without a literal the key is any expression that names a lock.

use lock_runtime::{LockClient, LockError, LockKey, distributed_lock};

const KEY: &str = "constant";

struct Job {
    name: String,
}

impl Job {
    fn key(&self) -> Result<LockKey, LockError> {
        LockKey::builder().text("job:").part(&self.name).build()
    }

    #[distributed_lock(key = self.key(), guard = hold)]
    async fn run(&self) -> Result<String, LockError> {
        Ok(hold.key().to_string())
    }
}

#[distributed_lock(key = KEY, guard = hold)]
async fn constant() -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = &name, guard = hold)]
async fn argument(name: String) -> Result<String, LockError> {
    drop(name);
    Ok(hold.key().to_string())
}

#[distributed_lock(key = format!("a{}b", n + 1), guard = hold)]
async fn formatted(n: u8) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = concat!("a", "b"), guard = hold)]
async fn pasted() -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

struct Named {
    name: String,
}

/// The field of the same name is not the argument, which went into the key.
#[distributed_lock(key = name)]
async fn given_away(name: String, of: &Named) -> Result<usize, LockError> {
    Ok(of.name.len())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            assert_eq!(Job { name: "x:y".into() }.run().await?, "job:x%3Ay");
            assert!(Job { name: String::new() }.run().await.is_err());
            assert_eq!(constant().await?, "constant");
            assert_eq!(argument("named".into()).await?, "named");
            assert_eq!(formatted(3).await?, "a4b");
            assert_eq!(given_away("k".into(), &Named { name: "four".into() }).await?, 4);
            assert_eq!(pasted().await?, "ab");
            Ok(())
        })
        .await
}
