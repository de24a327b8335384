//! `Debug` for types that show only their name.

/// Implements `Debug` for types that show their name and no field.
macro_rules! opaque_debug {
    ($(<$($life:lifetime,)? $($param:ident $(: $bound:path)?),+>)? $Type:ident $(<$($lives:lifetime,)? $($arg:ident),+>)?) => {
        impl $(<$($life,)? $($param $(: $bound)?),+>)? std::fmt::Debug for $Type $(<$($lives,)? $($arg),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($Type)).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use opaque_debug;
