//! `key("…", …)` takes any expressions, also those that only live while the key is built.

use lock_runtime::{LockClient, LockError, distributed_lock};

const SHARDS: u64 = 16;

struct Shop {
    tenant: String,
}

impl Shop {
    #[distributed_lock(
        key("shop:{}:{}:{:raw}", self.tenant.to_uppercase(), id % SHARDS, if id > 9 { "many" } else { "few" }),
        guard = hold,
    )]
    async fn sell(&mut self, id: u64) -> Result<String, LockError> {
        self.tenant.push('!');
        Ok(hold.key().to_string())
    }
}

#[distributed_lock(key("both:{}", *items.first().unwrap_or(&0)), guard = hold)]
async fn moved(items: Vec<u8>) -> Result<(Vec<u8>, String), LockError> {
    Ok((items, hold.key().to_string()))
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            let mut shop = Shop { tenant: "a".into() };
            assert_eq!(shop.sell(33).await?, "shop:A:1:many");
            assert_eq!(shop.sell(2).await?, "shop:A!:2:few");
            assert_eq!(moved(vec![5, 6]).await?, (vec![5, 6], "both:5".into()));
            Ok(())
        })
        .await
}
