//! The attribute and the derive add no warning to what they stand on: all this has to do is compile, under `cargo clippy` too. `pass`
//! runs the same forms.

#![deny(warnings, unused, clippy::all, clippy::pedantic, clippy::nursery)]
#![deny(trivial_casts, trivial_numeric_casts, unused_qualifications, unused_lifetimes)]
#![deny(clippy::absolute_paths, clippy::as_conversions, clippy::panic, clippy::shadow_reuse)]
#![deny(clippy::shadow_same, clippy::shadow_unrelated, clippy::unwrap_used, clippy::expect_used)]
#![deny(clippy::str_to_string, clippy::semicolon_outside_block, clippy::unneeded_field_pattern)]
#![deny(clippy::ref_patterns, clippy::pattern_type_mismatch, clippy::needless_return)]
#![forbid(unsafe_code)]
#![allow(dead_code, reason = "nothing of it runs")]

mod attribute;
pub mod key_part;
mod plain;
