//! A service with a lock on a function, a lock on a route, the console, and a transaction that is fenced.

use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_console::ConsoleOptions;
use lock_runtime::policy::LockConfig;
use lock_runtime::{KeyPart, LockClient, LockError, LockGuard, LockOptions, distributed_lock};
use lock_sqlx::{Fence, FenceError};
use lock_tower::{HeldLock, LockLayer};
use sqlx::SqlitePool;

#[derive(Clone, Copy, KeyPart)]
struct OrderId(u64);

#[distributed_lock(key = "order:{id}", wait = "2s")]
async fn pay(id: OrderId) -> Result<String, LockError> {
    Ok(format!("paid {}", id.0))
}

async fn withdraw(hold: &LockGuard, pool: &SqlitePool) -> Result<(), FenceError> {
    let mut tx = pool.begin().await?;
    hold.fence(&mut tx).await?;
    Ok(tx.commit().await?)
}

async fn pay_over_http(Path(id): Path<u64>, lock: HeldLock) -> String {
    format!("paid {id} under {}", lock.key())
}

fn service(client: LockClient) -> Result<Router, Box<dyn std::error::Error>> {
    let wait = LockOptions::new().wait(Duration::from_secs(2));
    let layer =
        LockLayer::http().client(client.clone()).key("order:{path.id:u64}").options(wait).build()?;
    let orders = Router::new().route("/orders/{id}/pay", post(pay_over_http)).route_layer(layer);
    Ok(orders.nest("/locks", lock_console::router(client, ConsoleOptions::new())))
}

async fn client() -> Result<LockClient, Box<dyn std::error::Error>> {
    match std::env::args().nth(1) {
        Some(file) => Ok(LockClient::from_config(LockConfig::from_toml_file(file)?).await?),
        None => Ok(LockClient::in_memory()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = client().await?;
    client.install();
    let _service = service(client.clone())?;
    let order = client.mutex("order:42");
    let paid = order.run(pay(OrderId(42))).await??;
    assert_eq!(paid, "paid 42");
    let pool = SqlitePool::connect("sqlite::memory:").await?;
    lock_sqlx::migrate(&pool).await?;
    withdraw(&client.mutex("account:7").lock().await?, &pool).await?;
    client.shutdown(Duration::from_secs(5)).await;
    println!("{paid}");
    Ok(())
}
