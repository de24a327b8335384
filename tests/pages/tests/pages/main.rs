//! The code on the pages of the documentation.
//!
//! `blocks` are the Rust blocks, which the build script makes modules of: a block with tests runs as tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "the tests need its parser only")]
#[path = "../../../../lock-cli/src/args.rs"]
mod args;
mod configuration;
mod fencing;
mod languages;
mod manifests;
mod operations;
mod shell;
mod sql;

/// A module for each page, and in it a module for each block.
#[allow(
    clippy::all,
    clippy::unwrap_used,
    dead_code,
    missing_debug_implementations,
    missing_docs,
    unreachable_code,
    unreachable_pub,
    unused,
    reason = "code as users write it, in examples of a few lines"
)]
mod blocks {
    include!(concat!(env!("OUT_DIR"), "/blocks.rs"));
}

/// Reports all mistakes at once. Fails, too, if fewer than `at_least` things were looked at, since a check that
/// finds nothing to check cannot fail.
fn report(mistakes: Vec<String>, looked_at: usize, at_least: usize) {
    assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
    assert!(looked_at >= at_least, "only {looked_at} were found: the pages are not read any more");
}
