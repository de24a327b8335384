//! Customers stand in one line, at the doors of three processes, and are served in the order in which they came.
//!
//! ```sh
//! cargo run --example fair_queue
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example fair_queue    # the same through a Redis
//! ```
//!
//! A fair mutex has one queue for all processes. A plain mutex costs less and keeps an order only among the tasks of each
//! process, as the last line shows.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::{LockClient, LockError, LockKind};
use tokio::task::JoinSet;
use tokio::time::sleep;

const CUSTOMERS: [&str; 6] = ["Ada", "Bob", "Cem", "Dora", "Eve", "Finn"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let doors = three_processes().await?;
    println!("came:        {}", CUSTOMERS.join(" "));
    println!("fair mutex:  {}", serve(&doors, LockKind::Fair).await?);
    println!("plain mutex: {}", serve(&doors, LockKind::Mutex).await?);
    for door in doors {
        door.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// Lets the customers come one after the other, each to the next door, and then opens the shop. Returns the customers in
/// the order in which they were served.
async fn serve(doors: &[LockClient], kind: LockKind) -> Result<String, Box<dyn Error>> {
    let counter = format!("counter:{kind}");
    // While this holds the lock the shop is closed, and the line grows.
    let closed = doors[0].any_lock(kind, [&counter]).lock().await?;
    let (served, mut line) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    for ((number, customer), door) in (1..).zip(CUSTOMERS).zip(doors.iter().cycle()) {
        let (served, turn) = (Arc::clone(&served), door.any_lock(kind, [&counter]));
        line.spawn(async move {
            let buy = async {
                served.lock().map(|mut served| served.push(customer)).unwrap_or_default();
                sleep(Duration::from_millis(5)).await;
            };
            turn.run(buy).await
        });
        while in_line(doors, kind, &counter).await? < number {
            sleep(Duration::from_millis(1)).await;
        }
    }
    closed.release().await?;
    while let Some(customer) = line.join_next().await {
        customer??;
    }
    let served = served.lock().map_err(|_| "a customer panicked")?;
    Ok(served.join(" "))
}

/// The number of customers that wait. The queue of a fair mutex is in the store; the queues of a mutex are in the processes.
async fn in_line(doors: &[LockClient], kind: LockKind, counter: &str) -> Result<usize, LockError> {
    match kind {
        LockKind::Fair => Ok(doors[0].admin().inspect(counter).await?.waiting),
        _ => Ok(doors.iter().map(|door| door.admin().waiting().len()).sum()),
    }
}

/// Three clients, as three processes would have them: of the Redis at `REDIS_URL`, or of one store in memory.
async fn three_processes() -> Result<Vec<LockClient>, LockError> {
    let (store, mut clients) = (MemoryStore::new(), Vec::new());
    for _ in 0..3 {
        clients.push(match std::env::var("REDIS_URL") {
            Ok(url) => LockClient::connect(&url).await?,
            Err(_) => LockClient::builder().memory(store.clone())?,
        });
    }
    Ok(clients)
}
