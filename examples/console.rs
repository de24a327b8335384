//! Locks at work in this process, and the console that shows them in the browser. Nothing to install.
//!
//! ```sh
//! cargo run --example console      # then open http://127.0.0.1:7379
//! ```
//!
//! Six services share a store in memory: a queue, a read/write lock, a semaphore, a lock that is lost every few seconds, and
//! two tasks that run into a deadlock, which ends when the wait of one of them does.

use std::error::Error;
use std::time::Duration;

use lock_console::ConsoleOptions;
use lock_runtime::MemoryStore;
use lock_runtime::{Lease, LockClient, LockError, LockOptions, Wait};
use tokio::net::TcpListener;
use tokio::time::sleep;

type Outcome = Result<(), LockError>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    let mut services = Vec::new();
    let mut service = |name: &str| {
        let client = LockClient::builder().service(name).memory(store.clone())?;
        services.push(client.clone());
        Ok::<_, LockError>(client)
    };
    // All wait for at most 20 s: so the deadlock below ends by itself.
    let (billing, warehouse) = (service("billing")?, service("warehouse")?);
    for number in 1..=4 {
        tokio::spawn(forever(billing.clone(), move |client| invoice(client, number)));
    }
    tokio::spawn(forever(billing.clone(), |client| transfer(client, "acct:ada", "acct:bob")));
    tokio::spawn(forever(warehouse.clone(), |client| transfer(client, "acct:bob", "acct:ada")));
    let catalog = service("catalog")?;
    for _ in 0..3 {
        tokio::spawn(forever(catalog.clone(), read_prices));
    }
    tokio::spawn(forever(service("pricing")?, change_prices));
    let mail = service("mail")?;
    for number in 1..=5 {
        tokio::spawn(forever(mail.clone(), move |client| send_mail(client, number)));
    }
    tokio::spawn(forever(service("reports")?, lose_a_lock));

    let port = std::env::var("PORT").map_or(Ok(7379), |port| port.parse::<u16>())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("The console is at http://{}/ (Ctrl+C ends it).", listener.local_addr()?);
    let options = ConsoleOptions::new().allow_release(true).hosts(["127.0.0.1", "localhost"]);
    tokio::select! {
        served = axum::serve(listener, lock_console::router(billing, options)) => served?,
        asked_to_end = tokio::signal::ctrl_c() => asked_to_end?,
    }
    for service in services {
        service.shutdown(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Does it again and again; a lock that was not free in time, or was lost, is part of the scene.
async fn forever<F: Future<Output = Outcome>>(client: LockClient, work: impl Fn(LockClient) -> F) {
    loop {
        match work(client.clone()).await {
            Ok(()) => {}
            Err(LockError::Closed) => return,
            Err(error) => eprintln!("{error}"),
        }
        sleep(Duration::from_millis(fastrand::u64(200..1_500))).await;
    }
}

fn seconds(from: u64, to: u64) -> Duration {
    Duration::from_millis(fastrand::u64(from * 1_000..to * 1_000))
}

/// Invoices have numbers without gaps: one task at a time, in order of arrival.
async fn invoice(client: LockClient, number: u32) -> Outcome {
    let queue = client.fair_mutex("invoice:numbers").wait(Duration::from_secs(20));
    queue.run(sleep(seconds(2, 5))).await?;
    client.mutex(format!("invoice:{number}")).run(sleep(seconds(1, 3))).await
}

/// Two transfers in opposite directions, which lock the accounts one after the other: a deadlock until a wait ends.
async fn transfer(client: LockClient, from: &str, to: &str) -> Outcome {
    let wait = Duration::from_millis(fastrand::u64(8_000..14_000));
    let (from, to) = (client.mutex(from).wait(wait), client.mutex(to).wait(wait));
    from.run(async {
        sleep(Duration::from_secs(1)).await;
        to.run(sleep(seconds(1, 3))).await
    })
    .await?
}

async fn read_prices(client: LockClient) -> Outcome {
    client.rw_lock("catalog:prices").run_read(sleep(seconds(1, 3))).await
}

async fn change_prices(client: LockClient) -> Outcome {
    client.rw_lock("catalog:prices").run_write(sleep(seconds(2, 4))).await?;
    sleep(Duration::from_secs(5)).await;
    Ok(())
}

/// The mail server takes three connections.
async fn send_mail(client: LockClient, number: u32) -> Outcome {
    let three = 3;
    let send = client.mutex(format!("mail:{number}"));
    let connections = client.semaphore("mail:connections", three);
    connections.run(async { send.run(sleep(seconds(2, 4))).await }).await?
}

/// A report that takes longer than its lease: the lock is lost, and the body dropped.
async fn lose_a_lock(client: LockClient) -> Outcome {
    let brief = LockOptions::new().lease(Lease::Fixed(Duration::from_secs(6)));
    let brief = brief.wait(Wait::None);
    client.mutex("report:nightly").with(brief).run(sleep(Duration::from_secs(60))).await
}
