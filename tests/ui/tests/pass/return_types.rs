//! Any `Result` whose error can be made from `LockError`; `?` and `return` stay inside the body.

use std::error::Error;
use std::fmt;

use futures_util::stream::{self, Stream, StreamExt as _};
use lock_runtime::{LockClient, LockError, distributed_lock};

#[derive(Debug)]
enum PayError {
    Lock(LockError),
    Amount(#[expect(dead_code, reason = "as in a user's program")] std::num::ParseIntError),
}

impl From<LockError> for PayError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<std::num::ParseIntError> for PayError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Amount(error)
    }
}

type Paid<T = u64> = Result<T, PayError>;

#[distributed_lock(key = "pay", wait = none)]
async fn alias(amount: &str) -> Paid {
    if amount.is_empty() {
        return Ok(0);
    }
    Ok(amount.parse::<u64>()?)
}

#[distributed_lock(key = "pay", wait = none)]
async fn boxed(amount: &str) -> Result<u64, Box<dyn Error + Send + Sync>> {
    if amount == "?" {
        Err("unclear")?;
    }
    Ok(amount.parse()?)
}

#[distributed_lock(key = "pay", wait = none)]
async fn display() -> Result<impl fmt::Display, LockError> {
    Ok("shown")
}

#[distributed_lock(key = "pay", wait = none)]
async fn no_value() -> Result<(), PayError> {
    for _ in 0..3 {
        alias("5").await?;
    }
    Ok(())
}

/// A struct, and no future in spite of its name.
struct OilFuture {
    price: u64,
}

#[distributed_lock(key = "pay", wait = none)]
async fn named_as_a_future() -> Result<OilFuture, PayError> {
    Ok(OilFuture { price: 70 })
}

#[distributed_lock(key = "pay", wait = none)]
async fn item_of_a_stream<S: Stream + Unpin>(
    items: &mut S,
) -> Result<Option<<S as Stream>::Item>, PayError> {
    Ok(items.next().await)
}

#[tokio::test]
async fn runs() -> Result<(), Box<dyn Error + Send + Sync>> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert!(matches!(alias("").await, Ok(0)));
            assert!(matches!(alias("12").await, Ok(12)));
            assert!(matches!(alias("x").await, Err(PayError::Amount(_))));
            assert_eq!(boxed("12").await?, 12);
            assert_eq!(boxed("?").await.unwrap_err().to_string(), "unclear");
            assert_eq!(display().await?.to_string(), "shown");
            assert!(no_value().await.is_ok());
            assert!(matches!(named_as_a_future().await, Ok(OilFuture { price: 70 })));
            let mut items = stream::iter([5, 6]);
            assert!(matches!(item_of_a_stream(&mut items).await, Ok(Some(5))));

            let held = client.mutex("pay").lock().await?;
            assert!(matches!(alias("").await, Err(PayError::Lock(LockError::Busy { .. }))));
            assert!(boxed("1").await.unwrap_err().is::<LockError>());
            held.release().await?;
            // An early way out gives the lock back, too.
            assert!(client.mutex("pay").try_lock().await?.is_some());
            Ok(())
        })
        .await
}
