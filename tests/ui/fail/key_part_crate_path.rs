//! A path to no runtime.

use lock_runtime::KeyPart;

mod facade {}

#[derive(KeyPart)]
#[key_part(crate = crate::facade)]
struct Id(u64);

fn main() {}
