//! Processes use locks of every kind for as long as is wanted, a nemesis injects faults, and the history is judged.
//!
//! `soak [--seed N] [--for 60s] [--pause 2ms]`. A run consists of rounds of at most 15 seconds, with a new server and the next
//! seed each. A seed gives the faults, their order, targets and times, and what the tasks choose; what the machine makes of it
//! differs a little each time. The tasks rest for up to `--pause` after each hold: longer ones leave processor time to others.
//! Prints a line for each fault, then operations, faults, the worst recovery by fault, and violations. Exits with an error if
//! there is a violation.

mod nemesis;
mod round;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use lock_tests::history::Report;
use tokio::time::Instant;

/// How long a round lasts at most. Many short rounds try more seeds than few long ones, and each history has to fit in memory.
const ROUND: Duration = Duration::from_secs(15);

/// What the rounds so far amount to.
#[derive(Debug, Default)]
struct Total {
    rounds: u64,
    events: usize,
    claims: usize,
    updates: usize,
    losses: usize,
    faults: usize,
    allowed: usize,
    recoveries: BTreeMap<String, (usize, Duration)>,
    violations: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { seed, time, pause } = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("soak: {why}\nusage: soak [--seed N] [--for 60s] [--pause 2ms]");
            return ExitCode::from(2);
        }
    };
    println!("soak: seed {seed}, for {time:?}");
    let (mut total, end) = (Total::default(), Instant::now() + time);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let seed = seed.wrapping_add(total.rounds);
        total.add(seed, &round::run(seed, left.min(ROUND), pause).await);
    }
    total.print();
    match total.violations.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

struct Arguments {
    seed: u64,
    time: Duration,
    pause: Duration,
}

fn arguments(mut args: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut seed, mut time, mut pause) = (None, Duration::from_secs(60), Duration::from_millis(2));
    while let Some(name) = args.next() {
        let value = args.next().ok_or(format!("`{name}` needs a value"))?;
        let wrong = |why: String| format!("`{name} {value}`: {why}");
        match name.as_str() {
            "--seed" => seed = Some(value.parse().map_err(|_| wrong("not a number".to_owned()))?),
            "--for" | "--pause" => {
                let given = humantime::parse_duration(&value);
                let given = given.map_err(|why| wrong(why.to_string()))?;
                *(if name == "--for" { &mut time } else { &mut pause }) = given;
            }
            _ => return Err(format!("there is no `{name}`")),
        }
    }
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    Ok(Arguments { seed, time, pause })
}

impl Total {
    fn add(&mut self, seed: u64, report: &Report) {
        self.rounds += 1;
        self.events += report.events;
        self.claims += report.claims;
        self.updates += report.updates;
        self.losses += report.losses;
        self.faults += report.faults;
        self.allowed += report.allowed.len();
        for (fault, slowest) in &report.recoveries {
            let (rounds, worst) = self.recoveries.entry(fault.clone()).or_default();
            *rounds += 1;
            *worst = slowest.took.max(*worst);
        }
        for violation in &report.violations {
            println!("VIOLATION (seed {seed}): {violation}");
            self.violations.push(violation.to_string());
        }
    }

    fn print(&self) {
        let Self { rounds, events, claims, updates, losses, faults, allowed, .. } = self;
        println!("\n{rounds} rounds: {events} operations on record, {claims} locks acquired,");
        println!(
            "{updates} updates, {losses} losses, {faults} faults; {allowed} allowed by them\n"
        );
        println!("{:<44} {:>6} {:>14}", "fault", "rounds", "worst recovery");
        for (fault, (rounds, worst)) in &self.recoveries {
            println!("{fault:<44} {rounds:>6} {:>12}ms", worst.as_millis());
        }
        println!("\nsoak: {} violations", self.violations.len());
    }
}
