//! Compares the locks of this workspace with the commands that they are made of, and with other
//! libraries: everything in one run, on one temporary server. See `README.md` for how to read it.

mod args;
mod awake;
mod bench;
mod case;
mod contender;
mod drive;
mod record;
mod report;

use std::error::Error;
use std::process::ExitCode;

use crate::args::{Args, Command};
use crate::bench::Bench;
use crate::report::Report;

/// An error of any kind ends the run with a message; no code here inspects it.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Threads of the runtime that all contenders run on, independent of the machine.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Help) => {
            println!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(report) if args.strict && report.missed() > 0 => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases, shows the table, writes the file.
fn run(args: &Args) -> Result<Report> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let report = runtime.block_on(measure(args))?;
    print!("{}", report.table());
    let path = report.write()?;
    println!("\n{} of {} targets missed; figures in {}", report.missed(), report.targets(), path);
    Ok(report)
}

async fn measure(args: &Args) -> Result<Report> {
    let bench = Bench::start(args.timing).await?;
    let mut report = Report::new(args, bench.server_version().await);
    for case in &args.cases {
        eprintln!("measuring {} …", case.name());
        report.add(case.run(&bench).await?);
    }
    bench.end().await;
    Ok(report)
}
