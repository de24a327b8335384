//! Compares the locks of this workspace with the commands that they are made of, and with other
//! libraries: everything in one run, on one temporary server. See `README.md` for how to read it.

mod args;
mod awake;
mod case;
mod configuration;
mod contender;
mod counts;
mod peers;
mod record;
mod report;
mod timing;
mod usage;

use std::error::Error;
use std::process::ExitCode;

use lock_tests::RedisServer;

use crate::args::{Command, Plan};
use crate::report::Report;
use crate::timing::Timing;

/// An error of any kind ends the run with a message; no code here inspects it.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Threads of a runtime, independent of the machine.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let done = match args::parse(std::env::args_os()) {
        Ok(Command::Time(plan)) => time(&plan),
        Ok(Command::Counts { accept, strict }) => count(Some(accept), "counts", strict),
        Ok(Command::Instructions { strict }) => count(None, "instructions", strict),
        Ok(Command::Work(load)) => load.run().map(|()| ExitCode::SUCCESS),
        Ok(Command::Drive(who)) => peers::drive(&who).map(|()| ExitCode::SUCCESS),
        Ok(Command::Help) => {
            println!("{}", args::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(WORKERS).enable_all().build()?)
}

/// Measures rows, then cases.
fn time(plan: &Plan) -> Result<ExitCode> {
    let report = runtime()?.block_on(async {
        let server = RedisServer::start().await;
        let version = usage::info(&server, "server", "redis_version").await;
        let Timing { rounds, turn } = plan.timing;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let conditions = format!(
            "Redis {version}, {cores} processor cores, {rounds} rounds of {turn:?} (with one task, five times as many of a \
             fifth). Figures and ratios are medians over the rounds; a ratio compares turns of one round."
        );
        let mut report = Report { conditions, contenders: Vec::new(), records: Vec::new() };
        if !plan.rows.is_empty() {
            (report.records, report.contenders) = peers::run(plan, &server).await?;
        }
        for case in &plan.cases {
            eprintln!("measuring {case} …");
            report.records.extend(case::run(case, &server, plan.timing).await?);
        }
        Result::Ok(report)
    });
    shown(&report?, &plan.name, plan.strict)
}

/// Counts, of ours for the record or, with `None`, of all contenders.
fn count(accept: Option<bool>, name: &str, strict: bool) -> Result<ExitCode> {
    counts::use_one_core()?;
    let records = runtime()?.block_on(async {
        match accept {
            Some(accept) => counts::run(accept).await,
            None => counts::beside().await,
        }
    })?;
    let conditions = "What a pair costs; ratios are to the floor.".to_owned();
    let report = Report { conditions, contenders: Vec::new(), records };
    shown(&report, name, strict)
}

/// Prints the report and writes the files.
fn shown(report: &Report, name: &str, strict: bool) -> Result<ExitCode> {
    print!("{}", report.markdown());
    let (path, missed) = (report.write(name)?, report.verdicts(false).count());
    println!("\n{missed} targets missed; figures in {path}.json, tables in {path}.md");
    if strict {
        report.verdicts(false).for_each(|miss| eprintln!("error: {miss}"));
    }
    Ok(if strict && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
