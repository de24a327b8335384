//! Several attributes are several locks, taken in the order in which they are written.

use lock_runtime::admin::HoldKind;
use lock_runtime::{LockClient, LockError, distributed_lock};

#[distributed_lock(key = "first:{id}", guard = first, wait = none)]
#[distributed_lock(key = "second:{id}", guard = second, kind = fair, wait = none)]
#[distributed_lock(key = "third:{id}", guard = third, kind = write, wait = none)]
async fn three(id: u64, client: LockClient) -> Result<[String; 3], LockError> {
    let kinds = [HoldKind::Mutex, HoldKind::Fair, HoldKind::Write];
    for (hold, kind) in [first, second, third].into_iter().zip(kinds) {
        assert_eq!(client.admin().inspect(hold.key().clone()).await?.kind, Some(kind));
    }
    Ok([first, second, third].map(|hold| hold.key().to_string()))
}

#[distributed_lock(key = "outer", wait = none)]
#[distributed_lock(key = "inner", on_busy = fallback(nobody))]
async fn mixed(name: String) -> Result<Option<String>, LockError> {
    Ok(Some(name))
}

async fn nobody(name: String) -> Result<Option<String>, LockError> {
    assert_eq!(name, "n");
    Ok(None)
}

#[distributed_lock(key = "outer", on_busy = skip)]
#[distributed_lock(key = "inner", on_busy = skip, when = id > 1)]
async fn jobs(id: u64) -> Option<u64> {
    Some(id)
}

struct Shop {
    client: LockClient,
}

impl Shop {
    #[distributed_lock(key = "outer", client = self.client, wait = none)]
    #[lock_runtime::distributed_lock(key = "outer", client = self.client, wait = none)]
    async fn same_key(&mut self, names: Vec<String>) -> Result<usize, LockError> {
        Ok(names.into_iter().map(|name| name.len()).sum())
    }
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert_eq!(three(7, client.clone()).await?, ["first:7", "second:7", "third:7"]);
            let mut shop = Shop { client: client.clone() };
            assert_eq!(shop.same_key(vec!["ab".into(), "c".into()]).await?, 3);
            assert_eq!(mixed("n".into()).await?.as_deref(), Some("n"));
            assert_eq!(jobs(2).await, Some(2));

            // The second is busy: the first was taken, the third was not asked for.
            let held = client.fair_mutex("second:7").lock().await?;
            let before = client.admin().inspect("third:7").await?.last_token;
            let LockError::Busy { key, .. } = three(7, client.clone()).await.unwrap_err() else {
                panic!("not busy")
            };
            assert_eq!(key.as_str(), "second:7");
            let first = client.admin().inspect("first:7").await?;
            assert!(first.kind.is_none() && first.last_token.is_some());
            assert_eq!(client.admin().inspect("third:7").await?.last_token, before);
            held.release().await?;

            let held = client.mutex("inner").lock().await?;
            assert_eq!(mixed("n".into()).await?, None);
            assert_eq!(jobs(2).await, None);
            assert_eq!(jobs(1).await, Some(1));
            held.release().await
        })
        .await
}
