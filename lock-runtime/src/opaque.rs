//! `Debug` for types that show only their name.

/// Implements `Debug` for types that show their name and no field.
macro_rules! opaque_debug {
    ($(<$($param:ident $(: $bound:path)?),+>)? $Type:ident $(<$($arg:ident),+>)?) => {
        impl $(<$($param $(: $bound)?),+>)? std::fmt::Debug for $Type $(<$($arg),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($Type)).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use opaque_debug;
