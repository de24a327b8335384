//! Methods under `#[async_trait]`: of the trait and of its impls, with arguments of every kind. `quiet` has more of them.

use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use lock_runtime::{KeyPart, LockClient, LockError, distributed_lock};

struct Path(u64);

#[async_trait]
trait Till: Sync {
    fn number(&self) -> u64;

    #[distributed_lock(key = "till:{self.number()}:{id}", guard = hold)]
    async fn defaulted(&self, id: u64) -> Result<String, LockError> {
        Ok(hold.key().to_string())
    }

    async fn patterns(
        &mut self,
        path: Path,
        pair: (u8, &str),
        id: u64,
    ) -> Result<String, LockError>;
    async fn generic<T: KeyPart + Send + Sync>(&self, id: T) -> Result<(T, String), LockError>;
    async fn arc(self: Arc<Self>, name: &str) -> Result<usize, LockError>;
    async fn associated(id: u64) -> Result<u64, LockError>
    where
        Self: Sized;
    async fn skipped(&self) -> Option<u64>;
    async fn by_path(&self, id: u64) -> Result<u64, LockError>;
    async fn hidden(&self, id: impl KeyPart + Send + Sync + 'static) -> Result<String, LockError>
    where
        Self: Sized;
}

struct Shop {
    tenant: String,
    sold: u64,
    client: LockClient,
}

#[async_trait]
impl Till for Shop {
    fn number(&self) -> u64 {
        self.sold
    }

    #[distributed_lock(key = "{self.tenant}:{nr}:{name}:{id}", guard = hold)]
    async fn patterns(
        &mut self,
        Path(nr): Path,
        (_, name): (u8, &str),
        mut id: u64,
    ) -> Result<String, LockError> {
        id += 1;
        self.sold += id + nr;
        Ok(format!("{} {name}", hold.key()))
    }

    #[distributed_lock(key = "outer:{self.tenant}", guard = outer)]
    #[distributed_lock(key = "inner:{id}", guard = inner, client = self.client)]
    #[distributed_lock(key = "innermost", wait = none)]
    async fn generic<T: KeyPart + Send + Sync>(&self, id: T) -> Result<(T, String), LockError> {
        Ok((id, format!("{} {}", outer.key(), inner.key())))
    }

    #[distributed_lock(key = "{self.tenant}:{name}", client = self.client)]
    async fn arc(self: Arc<Self>, name: &str) -> Result<usize, LockError> {
        tokio::task::yield_now().await;
        Ok(self.tenant.len() + name.len())
    }

    #[distributed_lock(key = "{id}")]
    async fn associated(mut id: u64) -> Result<u64, LockError> {
        id += 1;
        Ok(id)
    }

    #[distributed_lock(key = "job", on_busy = skip)]
    async fn skipped(&self) -> Option<u64> {
        let parsed = self.tenant.parse::<u64>().ok()?;
        Some(parsed)
    }

    #[distributed_lock(key("{}:{}", self::elsewhere::PREFIX, self.tenant), on_busy = fallback(self::elsewhere::instead))]
    async fn by_path(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[distributed_lock(key = "{id}", guard = hold)]
    async fn hidden(&self, id: impl KeyPart + Send + Sync + 'static) -> Result<String, LockError> {
        Ok(hold.key().to_string())
    }
}

mod elsewhere {
    pub const PREFIX: &str = "tenant";

    pub async fn instead(shop: &super::Shop, id: u64) -> Result<u64, super::LockError> {
        Ok(id * 100 + shop.sold)
    }
}

#[async_trait(?Send)]
trait Local {
    async fn take(&self, value: Rc<u64>) -> Result<u64, LockError>;
}

#[async_trait(?Send)]
impl Local for Shop {
    #[distributed_lock(key = "{self.tenant}:{value}", guard = hold)]
    async fn take(&self, value: Rc<u64>) -> Result<u64, LockError> {
        tokio::task::yield_now().await;
        assert!(!hold.is_lost());
        Ok(*value)
    }
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            let shop = || Shop { tenant: "7".into(), sold: 2, client: client.clone() };
            let mut mine = shop();
            assert_eq!(mine.defaulted(5).await?, "till:2:5");
            assert_eq!(mine.patterns(Path(1), (0, "n"), 2).await?, "7:1:n:2 n");
            assert_eq!(mine.sold, 6);
            assert_eq!(mine.generic("k").await?, ("k", "outer:7 inner:k".into()));
            assert_eq!(mine.hidden(4).await?, "4");
            assert_eq!(Shop::associated(4).await?, 5);
            assert_eq!(mine.take(Rc::new(8)).await?, 8);
            let task = tokio::spawn(Arc::new(shop()).arc("ab"));
            assert_eq!(task.await.expect("does not panic")?, 3);

            assert_eq!((mine.skipped().await, shop().by_path(3).await?), (Some(7), 3));
            let _held = client.multi_lock(["job", "tenant:7"]).lock().await?;
            assert_eq!((mine.skipped().await, shop().by_path(3).await?), (None, 302));
            Ok(())
        })
        .await
}
