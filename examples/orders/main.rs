//! An axum service that takes payments for orders.
//!
//! A payment reads the order's balance, takes a moment, and writes the new one: without a lock, two
//! at the same time lose one of the two. Here the methods of [`Orders`](service::Orders) are
//! annotated, and one route has a lock layer around it.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | where to listen; 0 takes any free port | 3000 |
//! | `REDIS_URL` | where locks and balances are, for several processes | in this process |
//! | `LOCKS=off` | run the same code without locks, to see what they are for | on |
//!
//! The first line on stdout is `listening on 127.0.0.1:PORT`. The README next door has requests to
//! try.

mod ledger;
mod routes;
mod service;

use std::env;
use std::error::Error;
use std::time::Duration;

use lock_runtime::LockClient;
use tokio::net::TcpListener;

use crate::ledger::Ledger;
use crate::service::{Locks, Orders};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let (client, ledger) = match env::var("REDIS_URL") {
        Ok(url) => {
            let client = LockClient::builder().namespace("shop").connect(&url).await?;
            (client, Ledger::redis(&url).await?)
        }
        Err(_) => (LockClient::in_memory(), Ledger::in_memory()),
    };
    let locks = match env::var("LOCKS").as_deref() {
        Ok("off") => {
            eprintln!("WARNING: LOCKS=off, payments run without locks and WILL LOSE MONEY");
            Locks::Off
        }
        Ok("on") | Err(_) => Locks::On,
        Ok(other) => return Err(format!("LOCKS is `{other}`; write `on` or `off`").into()),
    };
    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;

    let app = routes::app(Orders::new(client.clone(), ledger), locks)?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(asked_to_stop()).await?;

    // Every request is answered; whatever was dropped on the way is given back before we go.
    let left = client.shutdown(Duration::from_secs(5)).await;
    if !left.is_clean() {
        eprintln!("locks that end with their lease: {left:?}");
    }
    Ok(())
}

/// Ctrl-C, or what a supervisor sends.
async fn asked_to_stop() {
    let interrupt = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            eprintln!("cannot hear Ctrl-C: {error}");
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminated() => {}
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            terminate.recv().await;
        }
        Err(error) => {
            eprintln!("cannot hear SIGTERM: {error}");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending::<()>().await;
}
