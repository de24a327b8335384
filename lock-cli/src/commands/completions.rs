//! `lockctl completions`: what a shell needs to complete the command line.

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use serde_json::json;

use crate::answer::Answer;
use crate::args::Args;

pub(super) fn completions(shell: Shell) -> Answer {
    let mut script = Vec::new();
    generate(shell, &mut shown(), "lockctl", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({ "script": script });
    Answer::new(script, json)
}

/// The command line without the hidden commands, which the scripts would offer.
fn shown() -> Command {
    let all = Args::command();
    let shown = Command::new("lockctl").version(env!("CARGO_PKG_VERSION"));
    let shown = shown.args(all.get_arguments().cloned());
    shown.subcommands(all.get_subcommands().filter(|one| !one.is_hide_set()).cloned())
}
