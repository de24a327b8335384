//! `#[derive(KeyPart)]` in what a macro writes, and with the runtime under another name.

mod facade {
    pub use lock_runtime as locks;
}

use facade::locks::{KeyPart, LockError, LockKey};

macro_rules! newtypes {
    ($($name:ident($ty:ty)),*) => {$(
        #[derive(KeyPart)]
        #[key_part(crate = $crate::key_part_in_macros::facade::locks)]
        pub struct $name($ty);
    )*};
}

newtypes!(AccountId(u64), Tenant(&'static str), Boxed(Box<String>));

macro_rules! generic {
    ($name:ident<$t:ident> { $field:ident: $ty:ty }, $root:path) => {
        #[derive(KeyPart)]
        #[key_part(crate = $root)]
        pub struct $name<$t> {
            $field: $ty,
            out: std::marker::PhantomData<$t>,
        }
    };
}

generic!(Wrapped<T> { value: Box<T> }, crate::key_part_in_macros::facade::locks);

macro_rules! names {
    ($name:ident { $($variant:ident = $text:literal),* }) => {
        #[derive(KeyPart)]
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

fn key(part: &dyn KeyPart) -> Result<String, LockError> {
    LockKey::builder().part(part).build().map(|key| key.to_string())
}

#[test]
fn runs() -> Result<(), LockError> {
    assert_eq!(key(&AccountId(1))?, "1");
    assert_eq!(key(&Tenant("t"))?, "t");
    assert_eq!(key(&Boxed(Box::new("b".into())))?, "b");
    assert_eq!(key(&Wrapped { value: Box::new(2), out: std::marker::PhantomData })?, "2");
    assert_eq!(key(&Region::Own)?, "own");
    assert_eq!(key(&Region::Eu)?, "eu-1");
    assert_eq!(key(&Region::Us)?, "us-1");
    assert_eq!(key(&shadowed::Id(3))?, "3");
    Ok(())
}
