//! An axum service that takes payments for orders, with everything that a service with locks needs.
//!
//! A payment reads the order's balance, takes a moment, and writes the new one: without a lock, one of
//! two concurrent payments is lost. Here an annotated method takes payments ([`service`]), a layer locks
//! the routes that a file names ([`routes`], [`config`]), and the database refuses late writes
//! ([`ledger`]).
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PORT` | where to listen; 0 takes any free port | 3000 |
//! | `CONFIG` | the configuration of the locks | `orders.toml` as it was built in |
//! | `REDIS_URL` | where locks are, for several processes; overrides the configuration | in this process |
//! | `MYAPP_LOCK__…` | one line of the configuration: `MYAPP_LOCK__DEFAULTS__WAIT=5s` | |
//! | `DATABASE` | the SQLite file with the balances | with `REDIS_URL` `orders.db`, else in memory |
//! | `CARD_MS` | how long the card network takes to answer | 1 |
//! | `GRACE_MS` | how long a stop waits for requests, then as long again for those that hold a lock | 10000 |
//! | `LOCKS=off` | take payments without locks, to see what they are for | on |
//! | `RUST_LOG` | what is logged: `info,lock_runtime=debug` shows every acquire and hold | `info` |
//!
//! The first line on stdout is `listening on 127.0.0.1:PORT`; everything else is on stderr. The
//! README next door has requests to try.

mod config;
mod error;
mod ledger;
mod observe;
mod routes;
mod service;
mod signals;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use lock_runtime::LockClient;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::ledger::Ledger;
use crate::service::Orders;
use crate::signals::Signals;

/// How long answers may take to be sent once no lock is held any more.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Whether payments are locked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Locks {
    On,
    Off,
}

#[tokio::main]
async fn main() -> ExitCode {
    observe::log();
    run().await.unwrap_or_else(|failure| {
        tracing::error!("{failure}");
        ExitCode::FAILURE
    })
}

async fn run() -> Result<ExitCode, Failure> {
    let signals = Signals::listen()?;
    let client = LockClient::from_config(config::load()?).await?;
    // An attribute that does not go with the configuration is found now, not by a customer.
    client.admin().check_sites()?;
    let card = Duration::from_millis(variable("CARD_MS", 1)?);
    let orders = Orders::new(client.clone(), Ledger::open(database().as_deref())?, card);
    let app = routes::app(orders, locks()?, observe::metrics()?)?;
    let listener = TcpListener::bind(("127.0.0.1", variable("PORT", 3000)?)).await?;
    println!("listening on {}", listener.local_addr()?);
    serve(listener, app, client, signals).await
}

/// Serves until a signal asks it to stop, and then releases every lock.
async fn serve(
    listener: TcpListener,
    app: axum::Router,
    client: LockClient,
    signals: Signals,
) -> Result<ExitCode, Failure> {
    let grace = Duration::from_millis(variable("GRACE_MS", 10_000)?);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async { drop(stopped.await) });
    let mut server = tokio::spawn(server.into_future());

    signals.asked_to_stop(client.clone()).await;
    // Accepts no new connection; requests that hold a lock finish, requests that wait still get it.
    drop(stop);
    let in_time = timeout(grace, &mut server).await;
    // Requests that still wait for a lock are answered with 503; requests that hold one may finish.
    let left = client.shutdown(grace).await;
    let answered = in_time.is_ok() || timeout(LAST_ANSWERS, server).await.is_ok();
    if answered && left.is_clean() {
        return Ok(ExitCode::SUCCESS);
    }
    tracing::error!(answered, ?left, "stopped in the middle; these locks end with their lease");
    Ok(ExitCode::FAILURE)
}

/// Processes that share locks share a database.
fn database() -> Option<PathBuf> {
    let default = || env::var_os("REDIS_URL").map(|_| "orders.db".into());
    env::var_os("DATABASE").map(PathBuf::from).or_else(default)
}

fn locks() -> Result<Locks, Failure> {
    match env::var("LOCKS").as_deref() {
        Ok("off") => {
            tracing::warn!("LOCKS=off, payments run without locks and WILL LOSE MONEY");
            Ok(Locks::Off)
        }
        Ok("on") | Err(_) => Ok(Locks::On),
        Ok(other) => Err(format!("LOCKS is `{other}`; write `on` or `off`").into()),
    }
}

/// A number from the environment.
fn variable<T: FromStr>(name: &str, default: T) -> Result<T, Failure> {
    match env::var(name) {
        Err(_) => Ok(default),
        Ok(text) => text.parse().map_err(|_| format!("{name} is `{text}`; write a number").into()),
    }
}
