//! The site that an error names is the function's path.

use lock_runtime::{LockError, distributed_lock};

mod billing {
    use super::*;

    pub struct Till;

    impl Till {
        #[distributed_lock(key = "till")]
        pub async fn close(&self) -> Result<(), LockError> {
            Ok(())
        }
    }
}

#[tokio::test]
async fn runs() {
    let error = billing::Till.close().await.unwrap_err();
    let LockError::NoClient { site, .. } = error else { panic!("{error}") };
    assert!(site.ends_with("::billing::close"), "{site}");
}
