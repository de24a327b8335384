//! Types of the values in key templates.

use std::fmt;

use lock_runtime::__layer_v1 as runtime;
use lock_runtime::key::LockKeyBuilder;

macro_rules! value_types {
    ($($variant:ident: $ty:ty = $name:literal),* $(,)?) => {
        /// The type of a value in the key template of a layer, as in `{path.id:u64}`.
        ///
        /// `/orders/42` and `/orders/042` are the same order to a handler that takes a `u64`, so both need the same
        /// lock. A typed value is parsed as axum's and serde's extractors parse it, with `FromStr`, and the key has
        /// what the [`KeyPart`](lock_runtime::KeyPart) of the type writes: the name that an annotated function with an
        /// argument of that type locks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ValueType {
            /// The text as the request has it.
            Text,
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl ValueType {
            /// Returns the type with that name in a template.
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the names of all types that can be written.
            pub(crate) fn names() -> impl Iterator<Item = &'static str> {
                [$($name),*].into_iter()
            }

            /// Returns the name of the type; text has none.
            #[must_use]
            pub(crate) fn name(self) -> Option<&'static str> {
                match self {
                    Self::Text => None,
                    $(Self::$variant => Some($name),)*
                }
            }

            /// Adds the value to the key; `None` if the text is no value of this type.
            #[must_use]
            pub(crate) fn add(self, key: LockKeyBuilder, text: &str) -> Option<LockKeyBuilder> {
                match self {
                    Self::Text => Some(key.part(text)),
                    $(Self::$variant => text.parse::<$ty>().ok().map(|value| key.part(&value)),)*
                }
            }
        }
    };
}

value_types! {
    U8: u8 = "u8", U16: u16 = "u16", U32: u32 = "u32", U64: u64 = "u64", U128: u128 = "u128",
    Usize: usize = "usize", I8: i8 = "i8", I16: i16 = "i16", I32: i32 = "i32", I64: i64 = "i64",
    I128: i128 = "i128", Isize: isize = "isize", Uuid: runtime::Uuid = "uuid",
}

impl fmt::Display for ValueType {
    /// Writes `:u64`, or nothing for text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, ":{name}"),
            None => Ok(()),
        }
    }
}
