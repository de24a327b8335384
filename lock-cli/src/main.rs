//! `lockctl`: shows, watches and frees distributed locks.

mod answer;
mod args;
mod commands;
mod config_file;
mod connect;
mod failure;
mod text;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use self::answer::Answer;
use self::args::Args;
use self::failure::Failure;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = match runtime {
        Ok(runtime) => runtime.block_on(commands::run(&args)),
        Err(error) => Err(Failure::store(format!("no runtime can be started: {error}"))),
    };
    let code = match answer.and_then(|answer| print(&args, answer)) {
        Ok(code) => code,
        Err(failure) => {
            say(&failure);
            failure.code()
        }
    };
    ExitCode::from(code)
}

/// Prints an answer, and returns its exit code.
fn print(args: &Args, answer: Answer) -> Result<u8, Failure> {
    let Answer { text, json, notes, code } = answer;
    let text = match (args.json, json) {
        (true, Some(json)) => format!("{json:#}\n"),
        (true, None) => String::new(),
        (false, _) => text,
    };
    // False once the program that reads has seen enough.
    if !write(&text)? {
        return Ok(code);
    }
    for note in notes {
        say(&note);
    }
    Ok(code)
}

/// Writes a sentence to the standard error. The exit code is the same if nothing reads it.
fn say(sentence: &dyn Display) {
    let _ = writeln!(io::stderr(), "lockctl: {sentence}");
}

/// Writes to the standard output. False if nothing reads it any more.
fn write(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::store(format!("cannot print: {error}"))),
        Ok(()) => Ok(true),
    }
}
