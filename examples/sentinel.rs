//! Holds a lock again and again on the master that Redis Sentinel reports, and goes on through a failover.
//!
//! ```sh
//! SENTINELS=redis://127.0.0.1:26379,redis://127.0.0.1:26380 MASTER=mymaster cargo run --example sentinel
//! ```
//!
//! It ends after a few seconds. Kill the master meanwhile, and see the holds go on at the server that replaces it, with
//! higher fencing tokens. The promoted replica may not know the last hold, and grant the lock a second time: a resource
//! that must not be damaged by that has to refuse lower tokens.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, LockGuard};
use tokio::time::{Instant, sleep};

const HOLDS: u32 = 20;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let Ok(sentinels) = env::var("SENTINELS") else {
        return Err("SENTINELS is not set; set it to the addresses of your sentinels with commas between them, \
                    `redis://127.0.0.1:26379,redis://127.0.0.1:26380`, and MASTER to the master's name, \
                    unless it is `mymaster`"
            .into());
    };
    let master = env::var("MASTER").unwrap_or_else(|_| "mymaster".to_owned());
    let client = LockClient::builder()
        .store_patience(Duration::from_secs(30)) // longer than a failover takes
        .connect_sentinel(&master, sentinels.split(','))
        .await?;
    for number in 1..=HOLDS {
        let start = Instant::now();
        let guard = client.mutex("example:sentinel").lock().await?;
        let (waited, token) = (start.elapsed(), guard.token());
        println!("hold {number}: token {token}, at {}, after {waited:.0?}", server(&client).await?);
        if let Err(error) = work(guard).await {
            // The client repeats a release that failed in the background, and the next hold waits for it.
            println!("hold {number}: {}", with_causes(&error));
        }
    }
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// The work is dropped if the lock is lost while it runs.
async fn work(guard: LockGuard) -> Result<(), LockError> {
    guard.run(sleep(Duration::from_millis(250))).await?;
    guard.release().await
}

/// The address of the master.
async fn server(client: &LockClient) -> Result<String, LockError> {
    let servers = client.admin().servers().await?.into_iter();
    Ok(servers.map(|server| server.address).collect::<Vec<_>>().join(", "))
}

/// An error and what caused it.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
