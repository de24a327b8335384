//! Other attributes, visibilities and odd bodies stay as they are.

use lock_runtime::{LockClient, LockError, distributed_lock};

mod jobs {
    use super::*;

    /// Documented.
    #[must_use]
    #[inline]
    #[distributed_lock(key = "a")]
    #[doc = "More."]
    #[allow(unused_variables)]
    pub(super) async fn attributes(#[cfg(all())] unused: u8) -> Result<u8, LockError> {
        #![allow(unused_mut)]
        use std::convert::identity;
        const ONE: u8 = 1;
        let mut x = identity(ONE);
        fn two() -> u8 {
            2
        }
        Ok(x + two())
    }
}

#[distributed_lock(key = "a")]
#[deprecated]
async fn old() -> Result<u8, LockError> {
    Ok(1)
}

#[distributed_lock(key = "a")]
async unsafe fn dangerous(at: *const u8) -> Result<u8, LockError> {
    // SAFETY: the caller promises that it can be read.
    Ok(unsafe { *at })
}

#[distributed_lock(key = "a")]
async fn never() -> Result<std::convert::Infallible, LockError> {
    Err(LockError::Closed)
}

#[distributed_lock(key = "a")]
async fn looping() -> Result<u8, LockError> {
    loop {
        if let Some(x) = Some(3) {
            break Ok(x);
        }
    }
}

#[distributed_lock(key = "a", on_busy = skip)]
async fn empty() {}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            assert_eq!(jobs::attributes(0).await?, 3);
            #[allow(deprecated)]
            let one = old().await?;
            assert_eq!(one, 1);
            let value = 7;
            // SAFETY: `value` lives.
            assert_eq!(unsafe { dangerous(&raw const value) }.await?, 7);
            assert!(never().await.is_err());
            assert_eq!(looping().await?, 3);
            empty().await;
            Ok(())
        })
        .await
}
