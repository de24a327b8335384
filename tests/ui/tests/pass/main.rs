//! What the attribute compiles, by what its users write, run once each.
//!
//! What it refuses is in `fail`, with the compiler's messages.

// An expansion leaves nothing unused.
#![cfg_attr(not(clippy), deny(warnings))]

// The name that `no_prelude` has for it.
extern crate lock_runtime as renamed;

/// Rows of `[arguments of the attribute] (parameters) (values) => key`: the key that an annotated function locks.
///
/// A row that fails lets the others run, and is named by its arguments.
macro_rules! keys {
    ($([$($attribute:tt)*] ($($parameters:tt)*) ($($values:expr),*) => $key:literal;)*) => {{
        let mut wrong = Vec::new();
        $({
            #[lock_runtime::distributed_lock($($attribute)*, guard = hold)]
            #[allow(unused_variables, unused_mut)]
            async fn row($($parameters)*) -> Result<String, lock_runtime::LockError> {
                Ok(hold.key().to_string())
            }
            let found = row($($values),*).await;
            if !matches!(&found, Ok(key) if key == $key) {
                wrong.push(format!("[{}] => {found:?}", stringify!($($attribute)*)));
            }
        })*
        assert!(wrong.is_empty(), "{wrong:#?}");
    }};
}

/// Rows of `[arguments of the attribute] (parameters) -> returned { body } (values) => free, busy`: what an annotated function
/// returns while the lock of that name is free, and while another caller holds it.
///
/// A row that fails lets the others run, and is named by its arguments.
macro_rules! outcomes {
    ($client:ident, $name:expr; $(
        [$($attribute:tt)*] ($($parameters:tt)*) -> $returned:ty $body:block ($($values:expr),*) => $free:pat, $busy:pat,
    )*) => {{
        let mut wrong = Vec::new();
        $({
            #[lock_runtime::distributed_lock($($attribute)*)]
            #[allow(unused_variables)]
            async fn row($($parameters)*) -> $returned $body
            let row = async || row($($values),*).await;
            let free = $client.scope(row()).await;
            if !matches!(free, $free) {
                wrong.push(format!("[{}] free => {free:?}", stringify!($($attribute)*)));
            }
            let held = $client.mutex($name).lock().await.expect("the row before has released it");
            let busy = $client.scope(row()).await;
            if !matches!(busy, $busy) {
                wrong.push(format!("[{}] busy => {busy:?}", stringify!($($attribute)*)));
            }
            held.release().await.expect("is held");
        })*
        assert!(wrong.is_empty(), "{wrong:#?}");
    }};
}

mod async_trait_methods;
mod attributes;
mod beside_others;
mod errors;
mod forms;
mod guard_with_when;
mod hostile_names;
mod keys;
mod macros;
mod no_prelude;
mod on_busy_fallback;
mod options;
mod plain_functions;
mod returns_future;
mod stacked;
