//! `lockctl completions`: what a shell needs to complete the command line.

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use serde_json::json;

use crate::answer::Answer;
use crate::args::Args;

pub(super) fn completions(shell: Shell) -> Answer {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "lockctl", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({ "script": script });
    Answer::new(script, json)
}
