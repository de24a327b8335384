//! A process with a crew: its tasks use locks of every kind until it is told to stop.
//!
//! `crew_worker <redis url> <url of the values> <history directory> <lease ms> <answer ms> [seed]` answers `ready` when its
//! tasks run. With a seed, which gives their choices, they make hardly any pause and drop what they do now and then. It
//! takes one command a line:
//!
//! - `work <times>`: answers `worked` when they have acquired every lock so many times more.
//! - `stop`: ends them, answers `stopped`, and exits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::LockClient;
use lock_tests::crew::{Crew, Habits, values as values_at};
use lock_tests::history::Recorder;
use tokio::io::{AsyncBufReadExt, BufReader};

/// More than the end of all tasks takes on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [url, values, dir, lease, answer, seed @ ..] = &args[..] else {
        return Err("usage: crew_worker <redis url> <url of the values> <history directory> \
                    <lease ms> <answer ms> [seed]"
            .into());
    };
    let [lease, answer] = [lease.parse()?, answer.parse()?].map(Duration::from_millis);
    let client = LockClient::builder().command_timeout(answer).connect(url).await?;
    let values = values_at(values).await;
    let recorder = Arc::new(Recorder::create(Path::new(dir))?);
    let habits = match seed.first() {
        Some(seed) => {
            let (pause, seed) = (Duration::from_millis(2), seed.parse()?);
            Habits { lease, pause, cancel: true, seed, ..Habits::default() }
        }
        None => Habits { lease, seed: std::process::id().into(), ..Habits::default() },
    };
    let mut crew = Crew::new(&recorder, values, habits);
    crew.add(&client);
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("work", times) => {
                crew.work(times.parse()?, BOUND).await;
                println!("worked");
            }
            ("stop", _) => {
                crew.stop(BOUND).await;
                client.shutdown(BOUND).await;
                println!("stopped");
                return Ok(());
            }
            _ => return Err(format!("no such command: {line}").into()),
        }
    }
    Ok(())
}
