//! Names of the user's do not meet the expansion's.

#![allow(dead_code, unused_macros, non_snake_case)]

use lock_runtime::LockClient;

mod types {
    use lock_runtime::distributed_lock;

    pub struct LockSite;
    pub struct LockKey;
    pub struct CallSpec;
    pub struct Result<T>(T);
    pub struct Option;
    pub struct Box;

    pub fn Some() {}
    pub fn None() {}

    type Outcome = ::core::result::Result<u64, lock_runtime::LockError>;

    #[distributed_lock(key = "{id}", kind = fair, lease = "10s", guard = hold)]
    pub async fn guarded(id: u64) -> Outcome {
        Ok(id + 0 * hold.token().get())
    }

    #[distributed_lock(key = "{id}", on_busy = fallback(guarded), guard = hold)]
    pub async fn replaced(id: u64) -> Outcome {
        Ok(id + 0 * hold.token().get())
    }

    #[distributed_lock(key = "{id}")]
    pub fn hidden(id: u64) -> impl Future<Output = Outcome> {
        async move { Ok(id) }
    }
}

mod macros {
    macro_rules! concat {
        ($($tokens:tt)*) => {
            compile_error!("not the one of `core`")
        };
    }
    macro_rules! site {
        ($($tokens:tt)*) => {
            compile_error!("not the one of `lock_runtime`")
        };
    }

    mod core {}
    mod std {}

    #[lock_runtime::distributed_lock(key = "{id}")]
    pub async fn local(id: u64) -> Result<u64, lock_runtime::LockError> {
        Ok(id)
    }
}

mod values {
    use lock_runtime::{LockError, distributed_lock};

    static STATIC: u64 = 1;

    fn __lock_spec() -> u64 {
        2
    }

    #[distributed_lock(key = "{__lock_guard}:{SITE}:{__lock_busy}", guard = __lock_spec)]
    pub async fn arguments(
        __lock_guard: u64,
        SITE: u64,
        __lock_busy: u64,
    ) -> Result<u64, LockError> {
        let token = __lock_spec.token().get();
        Ok(__lock_guard + SITE + __lock_busy + 0 * token)
    }

    #[distributed_lock(key = "{__lock_spec}", on_busy = fallback(same))]
    #[distributed_lock(key = "2:{__lock_spec}", guard = __lock_guard)]
    pub async fn stacked(__lock_spec: u64) -> Result<u64, LockError> {
        Ok(__lock_spec + 0 * __lock_guard.token().get())
    }

    pub async fn same(id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[distributed_lock(key = "outside")]
    pub async fn outside() -> Result<u64, LockError> {
        Ok(STATIC + __lock_spec())
    }

    #[distributed_lock(key = "{name}", guard = hold)]
    pub async fn shadowed(name: String) -> Result<String, LockError> {
        let name = name.len();
        let hold = hold.key();
        Ok(format!("{name} {hold}"))
    }
}

/// Keywords as names, of functions, arguments, fields, types and holds.
mod raw {
    use lock_runtime::{LockError, distributed_lock};

    #[allow(non_camel_case_types)]
    pub struct r#type {
        pub r#fn: u64,
    }

    impl r#type {
        #[distributed_lock(key = "{self.r#fn}:{loop}:{r#match}", guard = r#final, on_busy = fallback(Self::r#else))]
        pub async fn r#async(&self, r#loop: u64, r#match: u64) -> Result<String, LockError> {
            Ok(format!("{} {}", r#final.key(), self.r#fn + r#loop + r#match))
        }

        async fn r#else(&self, r#loop: u64, _: u64) -> Result<String, LockError> {
            Ok(r#loop.to_string())
        }
    }

    #[distributed_lock(key("{}:{}", r#in, r#mod.r#fn), guard = hold)]
    pub async fn r#for(r#in: &str, r#mod: r#type) -> Result<String, LockError> {
        Ok(format!("{} {}", hold.key(), r#mod.r#fn))
    }
}

#[tokio::test]
async fn runs() -> Result<(), lock_runtime::LockError> {
    let r#dyn = raw::r#type { r#fn: 1 };
    let error = r#dyn.r#async(2, 3).await.unwrap_err();
    assert!(error.to_string().contains("::async"), "{error}");
    LockClient::in_memory()
        .scope(async {
            assert_eq!(types::guarded(1).await?, 1);
            assert_eq!(types::replaced(2).await?, 2);
            assert_eq!(types::hidden(3).await?, 3);
            assert_eq!(macros::local(4).await?, 4);
            assert_eq!(values::arguments(1, 2, 3).await?, 6);
            assert_eq!(values::stacked(5).await?, 5);
            assert_eq!(values::outside().await?, 3);
            assert_eq!(values::shadowed("abc".into()).await?, "3 abc");
            assert_eq!(r#dyn.r#async(2, 3).await?, "1:2:3 6");
            assert_eq!(raw::r#for("x", r#dyn).await?, "x:1 1");
            Ok(())
        })
        .await
}
