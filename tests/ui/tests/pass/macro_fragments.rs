//! Functions whose parts come out of `macro_rules!` variables.

use futures_util::future::BoxFuture;
use lock_runtime::{LockClient, LockError, distributed_lock};

macro_rules! whole {
    ($function:item) => {
        #[distributed_lock(key = "whole:{x}")]
        #[distributed_lock(key = "once more")]
        $function
    };
}

whole! {
    #[inline]
    async fn whole(x: u64) -> Result<u64, LockError> {
        Ok(x)
    }
}

macro_rules! parts {
    (
        $(#[$attribute:meta])* $vis:vis fn $name:ident($($argument:pat_param => $ty:ty),*) -> $ret:ty
        $body:block, $key:expr, $wait:expr, $kind:expr, $root:path, $other:path
    ) => {
        $(#[$attribute])*
        #[distributed_lock(
            key = $key, wait = $wait, kind = $kind, crate = $root, on_busy = fallback($other)
        )]
        $vis async fn $name($($argument: $ty),*) -> $ret $body
    };
}

async fn other(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

parts! {
    #[inline] #[allow(unused)]
    pub fn parts(id => u64) -> Result<u64, LockError> { Ok(id + 1) },
    "parts:{id}", "2s", semaphore(3), ::lock_runtime, other
}

macro_rules! lists {
    ($name:ident, $id:ident, $($key:expr),*; $lease:expr, $hold:ident, $time:literal) => {
        #[distributed_lock(keys = [$($key),*], lease = $lease, guard = $hold, at_least = $time)]
        async fn $name($id: u64) -> Result<u64, LockError> {
            assert!(!$hold.is_lost());
            Ok($id)
        }
    };
}

lists!(lists, id, "a", "b:{id}", format!("c:{id}"); watchdog("3s"), hold, "1ms");

macro_rules! futures {
    ($name:ident, $ret:ty, $body:block) => {
        #[distributed_lock(key = "future")]
        fn $name() -> $ret $body
    };
}

futures!(boxed, BoxFuture<'static, Result<u64, LockError>>, { Box::pin(async { Ok(1) }) });
futures!(hidden, impl Future<Output = Result<u64, LockError>> + Send, { async { Ok(2) } });

struct Shop(u64);

macro_rules! method {
    ($this:ident, $key:literal, $body:block) => {
        impl Shop {
            #[distributed_lock(key = $key)]
            async fn sell(&$this) -> Result<u64, LockError> $body
        }
    };
}

method!(self, "shop:{self.0}", { Ok(self.0) });

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            assert_eq!(whole(1).await?, 1);
            assert_eq!(parts(1).await?, 2);
            assert_eq!(lists(3).await?, 3);
            assert_eq!((boxed().await?, hidden().await?), (1, 2));
            assert_eq!(Shop(4).sell().await?, 4);
            Ok(())
        })
        .await
}
