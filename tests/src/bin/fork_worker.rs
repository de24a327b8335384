//! A process that uses a client, then forks; both sides then use clients of their own.
//!
//! `fork_worker <configuration> <url of the values> <history directory> <answer ms> <habits>` as `crew_worker`, loaded with the
//! library of `lock_tests::preload::Fork`. When the tasks of a side have acquired every lock a few times, it writes the id of its client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;
use lock_tests::crew::{Crew, Habits, connect_to_values};
use lock_tests::history::Recorder;
use tokio::runtime::Builder;

/// More than the end of all tasks takes on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [config, values, dir, _, habits] = &args[..] else {
        return Err("usage: fork_worker <configuration> <url of the values> <history directory> \
                    <answer ms> <habits>"
            .into());
    };
    let config = LockConfig::from_toml(config)?;
    let runtime = || Builder::new_current_thread().enable_all().build();
    runtime()?.block_on(async {
        let client = LockClient::builder().connect_config(config.clone()).await?;
        client.mutex("before the fork").lock().await?.release().await?;
        client.shutdown(BOUND).await;
        Ok::<_, Failure>(())
    })?;
    // One thread is left, as a fork needs it.
    let _ = std::os::unix::process::parent_id();
    runtime()?.block_on(async {
        let client = LockClient::builder().connect_config(config.clone()).await?;
        let values = connect_to_values(values).await?;
        let recorder = Arc::new(Recorder::create(Path::new(dir))?);
        let habits: Habits = serde_json::from_str(habits)?;
        let habits = Habits { seed: std::process::id().into(), ..habits };
        let mut crew = Crew::new(&recorder, values, habits);
        crew.add(&client);
        crew.work(3, BOUND).await;
        println!("{}", client.id());
        crew.stop(BOUND).await;
        client.shutdown(BOUND).await;
        Ok(())
    })
}
