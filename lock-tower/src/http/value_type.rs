//! Types of the values in key templates.

use std::str::FromStr;

use lock_runtime::__layer_v1::Uuid;
use lock_runtime::KeyPart;
use lock_runtime::key::LockKeyBuilder;

/// The type of a value in the key template of a layer, as in `{path.id:u64}`.
///
/// `/orders/42` and `/orders/042` are the same order to a handler that takes a `u64`, so both need the same
/// lock. A typed value is parsed as axum's and serde's extractors parse it, with `FromStr`, and the key has
/// what the [`KeyPart`] of the type writes: the name that an annotated function with an argument of that type locks.
#[derive(Debug)]
pub(crate) struct ValueType {
    pub(crate) name: &'static str,
    /// Adds the value to the key; `None` if the text is no value of this type.
    pub(crate) add: fn(LockKeyBuilder, &str) -> Option<LockKeyBuilder>,
}

pub(crate) static TYPES: [ValueType; 13] = [
    ValueType { name: "u8", add: add::<u8> },
    ValueType { name: "u16", add: add::<u16> },
    ValueType { name: "u32", add: add::<u32> },
    ValueType { name: "u64", add: add::<u64> },
    ValueType { name: "u128", add: add::<u128> },
    ValueType { name: "usize", add: add::<usize> },
    ValueType { name: "i8", add: add::<i8> },
    ValueType { name: "i16", add: add::<i16> },
    ValueType { name: "i32", add: add::<i32> },
    ValueType { name: "i64", add: add::<i64> },
    ValueType { name: "i128", add: add::<i128> },
    ValueType { name: "isize", add: add::<isize> },
    ValueType { name: "uuid", add: add::<Uuid> },
];

fn add<T: FromStr + KeyPart>(key: LockKeyBuilder, text: &str) -> Option<LockKeyBuilder> {
    text.parse::<T>().ok().map(|value| key.part(&value))
}
