//! Every kind of receiver, in inherent impls, traits and their impls.

#![allow(async_fn_in_trait)]

use std::rc::Rc;
use std::sync::Arc;

use lock_runtime::{LockClient, LockError, distributed_lock};

#[derive(Default)]
struct Counter {
    count: u64,
}

impl Counter {
    #[distributed_lock(key = "c:{self.count}")]
    async fn read(&self) -> Result<u64, LockError> {
        Ok(self.count)
    }

    #[distributed_lock(key = "c:{self.count}")]
    pub(crate) async fn write(&mut self, by: u64) -> Result<&mut u64, LockError> {
        self.count += by;
        Ok(&mut self.count)
    }

    #[distributed_lock(key = "c:{self.count}")]
    async fn take(mut self) -> Result<Self, LockError> {
        self.count += 1;
        Ok(self)
    }

    #[distributed_lock(key = "c:{self.count}")]
    async fn shared(self: Arc<Self>) -> Result<u64, LockError> {
        Ok(self.count)
    }

    #[distributed_lock(key = "c:{self.count}")]
    async fn local(self: &Rc<Self>) -> Result<u64, LockError> {
        Ok(self.count)
    }

    #[distributed_lock(key = "c")]
    async fn associated() -> Result<Self, LockError> {
        Ok(Self::default())
    }
}

trait Till {
    async fn open(&self) -> Result<u64, LockError>;

    fn number(&self) -> u64;

    #[distributed_lock(key = "till:{self.number()}", guard = hold)]
    async fn close(&self) -> Result<String, LockError> {
        self.open().await?;
        Ok(hold.key().to_string())
    }
}

impl Till for Counter {
    #[distributed_lock(key = "till:{self.count}")]
    async fn open(&self) -> Result<u64, LockError> {
        Ok(self.count)
    }

    fn number(&self) -> u64 {
        self.count
    }
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            let mut counter = Counter::associated().await?;
            *counter.write(2).await? += 1;
            let counter = counter.take().await?;
            assert_eq!(counter.read().await?, 4);
            assert_eq!(counter.close().await?, "till:4");
            assert_eq!(Rc::new(Counter { count: 9 }).local().await?, 9);
            assert_eq!(Arc::new(counter).shared().await?, 4);
            Ok(())
        })
        .await
}
