//! Compares the locks of this workspace with the commands that they are made of, and with other
//! libraries: everything in one run, on one temporary server. See `README.md` for how to read it.

mod args;
mod case;
mod charts;
mod configuration;
mod counts;
mod docs;
mod folder;
mod peers;
mod record;
mod report;
mod server;
mod timing;

use std::error::Error;
use std::process::ExitCode;

use crate::args::{Args, Command, Plan};
use crate::case::Case;
use crate::record::Record;
use crate::report::Report;
use crate::server::bench::Bench;

/// An error of any kind ends the run with a message; no code here inspects it.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Threads of the runtime that all contenders run on, independent of the machine.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Work(load)) => return exit(load.run().map(|()| ExitCode::SUCCESS)),
        Ok(Command::Peers(plan)) => return exit(compare(&plan).map(|()| ExitCode::SUCCESS)),
        Ok(Command::Docs) => return exit(docs::write().map(|()| ExitCode::SUCCESS)),
        Ok(Command::Drive(drive)) => return exit(drive.run().map(|()| ExitCode::SUCCESS)),
        Ok(Command::Help) => {
            println!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    exit(run(&args).map(|report| match args.strict && report.missed() > 0 {
        true => {
            report.misses().for_each(|miss| eprintln!("error: {miss}"));
            ExitCode::FAILURE
        }
        false => ExitCode::SUCCESS,
    }))
}

/// Prints an error.
fn exit(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Runs the cases or counts, shows the table, writes the file.
fn run(args: &Args) -> Result<Report> {
    if args.plan != Plan::Cases {
        counts::use_one_core()?;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    shown(runtime.block_on(async {
        if args.plan == Plan::Cases {
            return measure(args).await;
        }
        let mut report = Report::new(args);
        report.add(count(args).await?);
        Ok(report)
    })?)
}

/// Counts in place of time.
async fn count(args: &Args) -> Result<Vec<Record>> {
    match args.plan {
        Plan::Instructions => counts::beside().await,
        _ => counts::run(args.accept).await,
    }
}

/// Compares with other libraries; the work is done by other processes.
fn compare(plan: &peers::Plan) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(peers::run(plan))
}

fn shown(report: Report) -> Result<Report> {
    print!("{}", report.table());
    let path = report.write()?;
    println!("\n{} of {} targets missed; figures in {}", report.missed(), report.targets(), path);
    Ok(report)
}

async fn measure(args: &Args) -> Result<Report> {
    let mut report = Report::new(args);
    let mut bench = None;
    for case in &args.cases {
        eprintln!("measuring {} …", case.name());
        let records = match case {
            Case::InProcess(case) => case.run(args.timing).await?,
            Case::Server(case) => {
                if bench.is_none() {
                    let started = Bench::start(args.timing).await?;
                    report.server_version = Some(started.server_version().await);
                    bench = Some(started);
                }
                let Some(bench) = &bench else { continue };
                case.run(bench).await?
            }
        };
        report.add(records);
    }
    if let Some(bench) = bench {
        bench.end().await;
    }
    Ok(report)
}
