//! Functions and key parts whose parts come out of `macro_rules!` variables, with the runtime under another name.

use std::marker::PhantomData;

use futures_util::future::BoxFuture;
use lock_runtime::{LockClient, LockError, LockKey, distributed_lock};

mod facade {
    pub use lock_runtime as locks;
}

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

macro_rules! service {
    ($name:ident, $argument:ident, $wait:literal, $prefix:literal) => {
        #[facade::locks::distributed_lock(key = "in:{id}", wait = $wait, guard = hold, crate = $crate::macros::facade::locks)]
        async fn $name(id: u64, $argument: u64) -> Result<String, facade::locks::LockError> {
            Ok(format!("{} {} {}", hold.key(), id, $argument))
        }

        pub mod $argument {
            #[lock_runtime::distributed_lock(key($prefix, $argument), guard = hold)]
            pub async fn by($argument: u64) -> Result<String, lock_runtime::LockError> {
                Ok(hold.key().to_string())
            }
        }
    };
}

service!(pay, amount, "1s", "amount:{}");

macro_rules! newtypes {
    ($($name:ident($ty:ty)),*) => {$(
        #[derive(facade::locks::KeyPart)]
        #[key_part(crate = $crate::macros::facade::locks)]
        pub struct $name($ty);
    )*};
}

newtypes!(AccountId(u64), Boxed(Box<String>));

macro_rules! generic {
    ($name:ident<$t:ident> { $field:ident: $ty:ty }, $root:path) => {
        #[derive(facade::locks::KeyPart)]
        #[key_part(crate = $root)]
        pub struct $name<$t> {
            $field: $ty,
            out: PhantomData<$t>,
        }
    };
}

generic!(Wrapped<T> { value: Box<T> }, crate::macros::facade::locks);

macro_rules! names {
    ($name:ident { $($variant:ident = $text:literal),* }) => {
        #[derive(facade::locks::KeyPart)]
        pub enum $name {
            Own,
            $(#[key_part(name = $text)] $variant,)*
        }
    };
}

names!(Region { Eu = "eu-1", Us = "us-1" });

/// Names that the derive's own must not meet.
#[allow(non_upper_case_globals, dead_code)]
const out: u8 = 0;

mod shadowed {
    #![allow(dead_code)]

    trait KeyPart {}
    struct KeyPartWriter;
    struct PhantomData;

    #[derive(lock_runtime::KeyPart)]
    pub(super) struct Id(pub(super) u64);
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let functions = async {
        assert_eq!(whole(1).await?, 1);
        assert_eq!(parts(1).await?, 2);
        assert_eq!(lists(3).await?, 3);
        assert_eq!((boxed().await?, hidden().await?), (1, 2));
        assert_eq!(Shop(4).sell().await?, 4);
        assert_eq!(pay(1, 2).await?, "in:1 1 2");
        assert_eq!(amount::by(5).await?, "amount:5");
        Ok::<_, LockError>(())
    };
    LockClient::in_memory().scope(functions).await?;
    let parts: [(&dyn lock_runtime::KeyPart, &str); 7] = [
        (&AccountId(1), "1"),
        (&Boxed(Box::new("b".into())), "b"),
        (&Wrapped { value: Box::new(2), out: PhantomData }, "2"),
        (&Region::Own, "own"),
        (&Region::Eu, "eu-1"),
        (&Region::Us, "us-1"),
        (&shadowed::Id(3), "3"),
    ];
    for (part, key) in parts {
        assert_eq!(LockKey::builder().part(part).build()?.as_str(), key);
    }
    Ok(())
}
