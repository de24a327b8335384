//! Locks in a Redis Cluster: each at the master that has its slot, and several at once if they share a hash tag.
//!
//! ```sh
//! CLUSTER=redis://127.0.0.1:7000,redis://127.0.0.1:7001 cargo run --example cluster
//! ```
//!
//! One address is enough to find all nodes; more are for the case that the first is down.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::{LockClient, LockError};
use tokio::task::JoinSet;
use tokio::time::sleep;

const ORDERS: usize = 8;

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
    let Ok(nodes) = env::var("CLUSTER") else {
        return Err(
            "CLUSTER is not set; set it to the addresses of some nodes with commas between them, \
                    `redis://127.0.0.1:7000,redis://127.0.0.1:7001`"
                .into(),
        );
    };
    // Two clients, as two processes would have them.
    let one = connect(&nodes).await?;
    let other = connect(&nodes).await?;
    let masters = one.admin().servers().await?;
    println!(
        "{} masters: {}",
        masters.len(),
        masters.iter().map(|m| &*m.address).collect::<Vec<_>>().join(", ")
    );

    // Names without a hash tag: their slots, and with them the load, are spread over the masters.
    let (counts, mut tasks) = (Arc::new([const { AtomicU32::new(0) }; ORDERS]), JoinSet::new());
    for client in [&one, &other] {
        for order in 0..ORDERS {
            tasks.spawn(count(client.clone(), order, Arc::clone(&counts)));
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let counted: u32 = counts.iter().map(|count| count.load(SeqCst)).sum();
    println!("{ORDERS} orders, 5 updates of each by two processes: {counted} counted");

    // One command locks several names, and one master executes it. So the names must be in one slot.
    match one.multi_lock(["order:7:stock", "order:7:invoice"]).lock().await {
        Ok(_) => println!("these two names happen to share a slot"),
        Err(error) => println!("without a hash tag: {}", with_causes(&error)),
    }
    // The part in braces alone determines the slot.
    let both = one.multi_lock(["{order:7}:stock", "{order:7}:invoice"]).lock().await?;
    println!("with one: both locked, token {}", both.token());
    both.release().await?;
    for client in [one, other] {
        client.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

async fn connect(nodes: &str) -> Result<LockClient, LockError> {
    LockClient::builder().connect_cluster(nodes.split(',')).await
}

/// Reads, takes a moment, writes: without the lock, updates would be lost.
async fn count<const N: usize>(
    client: LockClient,
    order: usize,
    counts: Arc<[AtomicU32; N]>,
) -> Result<(), LockError> {
    let lock = client.mutex(format!("order:{order}"));
    for _ in 0..5 {
        let update = async {
            let seen = counts[order].load(SeqCst);
            sleep(Duration::from_millis(1)).await;
            counts[order].store(seen + 1, SeqCst);
        };
        lock.run(update).await?;
    }
    Ok(())
}

/// An error and what caused it.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
