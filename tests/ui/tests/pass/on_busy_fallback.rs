//! `fallback(path)` is called with the same arguments when the lock is busy, and only then.

use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};

struct Prices {
    cached: u64,
}

impl Prices {
    #[distributed_lock(key = "prices", on_busy = fallback(Prices::taken_cached), guard = hold)]
    async fn take(mut self, by: u64) -> Result<Self, LockError> {
        self.cached = by + 0 * hold.token().get();
        Ok(self)
    }

    async fn taken_cached(self, _: u64) -> Result<Self, LockError> {
        Ok(self)
    }

    #[distributed_lock(key = "prices", on_busy = fallback(Self::not_raised))]
    async fn raise(&mut self, by: u64) -> Result<&mut u64, LockError> {
        self.cached += by;
        Ok(&mut self.cached)
    }

    async fn not_raised(&mut self, by: u64) -> Result<&mut u64, LockError> {
        assert_eq!(by, 3);
        Ok(&mut self.cached)
    }
}

mod jobs {
    pub async fn nobody<T: Default>(_: T, mut name: String) -> Result<String, super::LockError> {
        name.push('-');
        Ok(name)
    }
}

#[distributed_lock(key = "prices", on_busy = fallback(jobs::nobody::<u8>))]
async fn generic(number: u8, mut name: String) -> Result<String, LockError> {
    name.push_str(&number.to_string());
    Ok(name)
}

#[distributed_lock(key = "prices", on_busy = fallback(std::future::ready), wait = "20ms")]
async fn not_an_async_fn(answer: Result<u8, LockError>) -> Result<u8, LockError> {
    answer.map(|_| 1)
}

#[distributed_lock(key = "prices", on_busy = fallback(instead))]
fn returns_a_future(name: &str) -> impl Future<Output = Result<usize, LockError>> + Send {
    async move { Ok(name.len()) }
}

async fn instead(_: &str) -> Result<usize, LockError> {
    Ok(0)
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let error = generic(7, "x".into()).await.unwrap_err();
    assert!(matches!(error, LockError::NoClient { .. }));
    let client = LockClient::in_memory();
    client
        .scope(async {
            let mut prices = Prices { cached: 1 };
            assert_eq!(*prices.raise(3).await?, 4);
            prices = prices.take(9).await?;
            assert_eq!(prices.cached, 9);
            assert_eq!(generic(7, "x".into()).await?, "x7");
            assert_eq!((not_an_async_fn(Ok(5)).await?, returns_a_future("four").await?), (1, 4));

            let held = client.mutex("prices").lock().await?;
            // Without a word about waiting no call waits.
            let all = async {
                assert_eq!(*prices.raise(3).await?, 9);
                assert_eq!(prices.take(10).await?.cached, 9);
                assert_eq!(generic(7, "x".into()).await?, "x-");
                let rest = (not_an_async_fn(Ok(5)).await?, returns_a_future("four").await?);
                assert_eq!(rest, (5, 0));
                Ok::<_, LockError>(())
            };
            tokio::time::timeout(Duration::from_secs(5), all).await.expect("does not wait")?;
            held.release().await
        })
        .await
}
