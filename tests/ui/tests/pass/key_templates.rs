//! Placeholders reach arguments, their fields, and methods without arguments.

use lock_runtime::{LockClient, LockError, distributed_lock};

struct Order {
    id: u64,
    place: (u8, String),
    r#type: char,
}

impl Order {
    fn number(&self) -> u64 {
        self.id + 1000
    }
}

struct Shop {
    tenant: String,
}

impl Shop {
    #[distributed_lock(key = "{self.tenant}:{order.id}:{order.place.1}", guard = hold)]
    async fn fields(&self, order: &Order) -> Result<String, LockError> {
        Ok(hold.key().to_string())
    }

    #[distributed_lock(key = "{ self.tenant.len() }:{order.number()}:{order.r#type}", guard = hold)]
    async fn methods(self, order: Order) -> Result<String, LockError> {
        drop(order);
        Ok(hold.key().to_string())
    }
}

#[distributed_lock(key = "job:{r#type}:{type:raw}", guard = hold)]
async fn escaping(r#type: &str) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "slot:{{{id}}}:x", guard = hold)]
async fn hash_tag(id: u64) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = r#"nightly "report""#, guard = hold)]
async fn no_placeholder() -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "order:{id}")]
async fn empty_value(id: String) -> Result<String, LockError> {
    Ok(id)
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            let shop = Shop { tenant: "a:b".into() };
            let order = Order { id: 7, place: (1, "x y".into()), r#type: 'k' };
            assert_eq!(shop.fields(&order).await?, "a%3Ab:7:x%20y");
            assert_eq!(shop.methods(order).await?, "3:1007:k");
            assert_eq!(escaping("a:b").await?, "job:a%3Ab:a:b");
            assert_eq!(hash_tag(4).await?, "slot:{4}:x");
            assert_eq!(no_placeholder().await?, "nightly \"report\"");
            assert!(matches!(empty_value(String::new()).await, Err(LockError::InvalidKey { .. })));
            Ok(())
        })
        .await
}
