//! The README's Rust blocks compile, and its configurations are read.

use crate::prelude::*;

const README: &str = include_str!("../../../README.md");

/// The blocks, each a module; what they name without defining it is here.
#[allow(dead_code, unused, unreachable_code, clippy::all, reason = "examples of a few lines")]
mod blocks {
    use super::*;

    type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;
    type AccountId = u64;
    type Uuid = u64;
    type BankError = LockError;
    type ShopError = LockError;
    struct Report;
    struct Order;

    include!(concat!(env!("OUT_DIR"), "/readme.rs"));
}

#[test]
fn configurations_are_read() {
    let blocks = README.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
    let configurations: Vec<_> = blocks.filter(|block| block.contains("[lock")).collect();
    assert!(!configurations.is_empty(), "no configuration is left in the README");
    for text in configurations {
        LockConfig::from_toml(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}
