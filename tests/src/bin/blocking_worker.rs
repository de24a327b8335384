//! A command-line program without async in its own code, for tests of the blocking face from process to process.
//!
//! `blocking_worker <redis url> <counter file> <rounds>`: adds one to the number in the file so many times, each time under
//! the lock `counter`, and prints the number of the last round. `blocking_worker <redis url> hold` acquires the lock `held`,
//! prints `held`, and checks the hold until it is lost; then it prints `lost`.

use std::error::Error;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use lock_runtime::blocking::{LockClient, LockGuard};
use lock_runtime::{Lease, LockError, LockOptions, distributed_lock};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let client = LockClient::connect(args.first().ok_or("no address of a server")?)?;
    client.install();
    match args[1..] {
        ["hold"] => hold(&client)?,
        [file, rounds] => {
            let mut last = 0;
            for _ in 0..rounds.parse()? {
                last = add_one(Path::new(file))??;
            }
            println!("{last}");
        }
        _ => {
            return Err(
                "usage: blocking_worker <redis url> (hold | <counter file> <rounds>)".into()
            );
        }
    }
    let report = client.shutdown(Duration::from_secs(5))?;
    if report.is_clean() {
        Ok(())
    } else {
        Err(format!("not everything was released: {report:?}").into())
    }
}

/// Reads, takes a moment, writes: an update in between is lost.
#[distributed_lock(key = "counter")]
fn add_one(file: &Path) -> Result<Result<u64, Box<dyn Error>>, LockError> {
    Ok((|| {
        let count = fs::read_to_string(file)?.trim().parse::<u64>()? + 1;
        thread::sleep(Duration::from_millis(1));
        fs::write(file, count.to_string())?;
        Ok(count)
    })())
}

fn hold(client: &LockClient) -> Result<(), LockError> {
    let options = LockOptions::builder().lease(Lease::Watchdog(Duration::from_secs(1))).build()?;
    let work = |hold: &LockGuard| {
        println!("held");
        while hold.check().is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        println!("lost");
    };
    match client.mutex("held").with(options).run(work) {
        Err(LockError::Lost { .. }) => Ok(()),
        other => other,
    }
}
