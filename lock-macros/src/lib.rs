//! The `#[distributed_lock]` attribute of `lock_runtime`, which re-exports it: depend on that crate,
//! not on this one.
//!
//! The manual is at [`macro@distributed_lock`]. The code reads in the order of the work: `args` parses the
//! argument list and `item` the function, `template` parses keys, `validate` checks combinations, and `expand`
//! writes the one call of the runtime. `key_part` is [`macro@KeyPart`].

mod args;
mod errors;
mod expand;
mod form;
mod item;
mod key_part;
mod template;
mod validate;

use proc_macro::TokenStream;

#[doc = include_str!("manual.md")]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}

#[doc = include_str!("key_part/manual.md")]
#[proc_macro_derive(KeyPart, attributes(key_part))]
pub fn derive_key_part(item: TokenStream) -> TokenStream {
    key_part::expand(item.into()).into()
}
