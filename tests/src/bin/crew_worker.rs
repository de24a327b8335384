//! A process with a crew: its tasks use locks of every kind until it is told to stop.
//!
//! `crew_worker <configuration> <url of the values> <history directory> <answer ms> <habits>`, with the configuration of the
//! client in TOML and the habits in JSON, answers `ready` when its tasks run, then takes one command a line:
//!
//! - `work <times>`: answers `worked` when they have acquired every lock so many times more.
//! - `stop`: ends them, answers `stopped`, and exits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;
use lock_tests::crew::{self, Crew, Habits};
use lock_tests::history::Recorder;
use tokio::io::{AsyncBufReadExt, BufReader};

/// More than the end of all tasks takes on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [config, values, dir, answer, habits] = &args[..] else {
        return Err("usage: crew_worker <configuration> <url of the values> <history directory> \
                    <answer ms> <habits>"
            .into());
    };
    let (config, habits) =
        (LockConfig::from_toml(config)?, serde_json::from_str::<Habits>(habits)?);
    let answer = Duration::from_millis(answer.parse()?);
    let builder = LockClient::builder().command_timeout(answer).waiter_lease(habits.lease);
    let client = builder.connect_config(config).await?;
    let values = crew::values(values).await;
    let recorder = Arc::new(Recorder::create(Path::new(dir))?);
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
