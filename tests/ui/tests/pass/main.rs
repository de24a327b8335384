//! What the attribute compiles, by what its users write, run once each.
//!
//! What it refuses is in `fail`, with the compiler's messages.

// The name that `no_prelude` has for it.
extern crate lock_runtime as renamed;

mod async_trait_methods;
mod attributes;
mod beside_others;
mod bodies;
mod client_forms;
mod conditional_code;
mod exclusion;
mod generics;
mod guard_name;
mod guard_with_when;
mod hold_times;
mod hostile_names;
mod in_macros;
mod key_expressions;
mod key_part_in_macros;
mod key_part_types;
mod key_templates;
mod key_values;
mod keys_forms;
mod kinds;
mod lease_forms;
mod macro_fragments;
mod map_err;
mod methods;
mod no_prelude;
mod on_busy_fallback;
mod on_busy_skip;
mod on_lost_choice;
mod on_release_lost_choice;
mod patterns;
mod plain_functions;
mod raw_identifiers;
mod reentry;
mod return_types;
mod returns_boxed;
mod returns_future;
mod send;
mod site;
mod stacked;
mod wait_forms;
mod when_condition;
