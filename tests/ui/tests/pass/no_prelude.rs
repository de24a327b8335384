//! Without a prelude, and with the runtime under another name.

#[no_implicit_prelude]
mod bare {
    use ::core::result::Result;
    use ::core::result::Result::Ok;
    use ::lock_runtime::{LockError, distributed_lock};
    use ::std::boxed::Box;
    use ::std::future::Future;
    use ::std::pin::Pin;
    use ::std::prelude::v1::assert_eq;

    #[distributed_lock(
        key = "order:{id}", wait = "2s", lease = "10s", kind = semaphore(3), guard = hold,
        at_least = "1ms", on_lost = finish, on_release_lost = error
    )]
    pub async fn literals(id: u64) -> Result<u64, LockError> {
        assert_eq!(hold.is_lost(), false);
        Ok(id)
    }

    #[distributed_lock(key("{}:{}", id, id), on_busy = fallback(literals), guard = hold)]
    pub async fn guarded(id: u64) -> Result<u64, LockError> {
        assert_eq!(hold.is_lost(), false);
        Ok(id)
    }

    #[distributed_lock(keys = ["a", "b:{id}"], on_busy = fallback(literals), when = id > 0)]
    pub async fn replaced(id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[distributed_lock(key = "a", on_busy = skip)]
    pub async fn skipped() {}

    #[distributed_lock(key = "a")]
    pub fn hidden(id: u64) -> impl Future<Output = Result<u64, LockError>> {
        async move { Ok(id) }
    }

    #[distributed_lock(key = "a")]
    pub fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>>>> {
        Box::pin(async move { Ok(id) })
    }

    #[distributed_lock(key = "a", crate = ::renamed)]
    pub async fn elsewhere(id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

#[tokio::test]
async fn runs() -> Result<(), lock_runtime::LockError> {
    lock_runtime::LockClient::in_memory()
        .scope(async {
            assert_eq!(bare::literals(1).await?, 1);
            assert_eq!(bare::guarded(2).await?, 2);
            assert_eq!(bare::replaced(3).await?, 3);
            bare::skipped().await;
            assert_eq!(bare::hidden(4).await?, 4);
            assert_eq!(bare::boxed(5).await?, 5);
            assert_eq!(bare::elsewhere(6).await?, 6);
            Ok(())
        })
        .await
}
