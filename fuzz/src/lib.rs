//! Fuzz targets for everything that parses input from outside.
//!
//! A target is a function of bytes that panics if a law does not hold. `tests/targets.rs` runs each over its corpus,
//! a file in the folder `corpus`, and over a little random input; `cargo xtask fuzz` runs them for longer, guided by
//! coverage, and adds what it finds to the corpus.
//!
//! - [`replies`]: what servers answer to scripts; no answer but the right one is a grant.
//! - [`topology`]: what sentinels, nodes of a cluster and INFO answer.
//! - [`notices`]: messages on channels.
//! - [`survey`]: requests and answers of surveys.
//! - [`names`]: lock names and the keys that belong to them; values in names.
//! - [`templates`]: key templates of a configuration.
//! - [`requests`]: requests over HTTP, and the keys that a layer makes of them.
//! - [`config`]: whole configurations, and addresses; neither shows a password.
#![allow(clippy::missing_panics_doc, reason = "a target panics when its law does not hold")]

pub mod config;
pub mod corpus;
mod input;
pub mod names;
pub mod notices;
pub mod replies;
pub mod requests;
pub mod survey;
pub mod templates;
pub mod topology;
