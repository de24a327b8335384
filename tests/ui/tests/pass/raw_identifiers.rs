//! Keywords as names, of functions, arguments, fields, types and holds.

#![allow(non_camel_case_types)]

use lock_runtime::{LockClient, LockError, distributed_lock};

struct r#type {
    r#fn: u64,
}

impl r#type {
    #[distributed_lock(key = "{self.r#fn}:{loop}:{r#match}", guard = r#final, on_busy = fallback(Self::r#else))]
    async fn r#async(&self, r#loop: u64, r#match: u64) -> Result<String, LockError> {
        Ok(format!("{} {}", r#final.key(), self.r#fn + r#loop + r#match))
    }

    async fn r#else(&self, r#loop: u64, _: u64) -> Result<String, LockError> {
        Ok(r#loop.to_string())
    }
}

#[distributed_lock(key("{}:{}", r#in, r#mod.r#fn), guard = hold)]
async fn r#for(r#in: &str, r#mod: r#type) -> Result<String, LockError> {
    Ok(format!("{} {}", hold.key(), r#mod.r#fn))
}

#[distributed_lock(key = "{loop}", guard = r#ref)]
async fn r#while(r#loop: u64) -> Result<u64, LockError> {
    assert!(!r#ref.is_lost());
    Ok(r#loop)
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let r#dyn = r#type { r#fn: 1 };
    let error = r#dyn.r#async(2, 3).await.unwrap_err();
    assert!(error.to_string().contains("::async"), "{error}");
    LockClient::in_memory()
        .scope(async {
            assert_eq!(r#dyn.r#async(2, 3).await?, "1:2:3 6");
            assert_eq!(r#while(4).await?, 4);
            assert_eq!(r#for("x", r#dyn).await?, "x:1 1");
            Ok(())
        })
        .await
}
