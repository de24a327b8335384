//! A process that uses a client, then forks; both sides then use clients of their own.
//!
//! `fork` with the arguments of `crew`, loaded with the library of `lock_tests::preload::Fork`. When the tasks of a side have acquired every lock a few times, it writes the id of its client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;
use lock_tests::crew::{Crew, Habits, connect_to_values};
use lock_tests::history::Recorder;
use tokio::runtime::Builder;

use super::Failure;

/// More than the end of all tasks takes on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

pub(super) fn run(config: &str, values: &str, dir: &str, habits: &str) -> Result<(), Failure> {
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
