//! HTTP in front of [`Orders`].

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use lock_tower::LockLayer;
use serde::{Deserialize, Serialize};

use crate::error::OrderError;
use crate::service::Orders;
use crate::{Failure, Locks};

/// All routes. Without locks they are the same, but for the locks.
pub(crate) fn app(orders: Orders, locks: Locks) -> Result<Router, Failure> {
    let mut refund = Router::new().route("/orders/{id}/refund", post(self::refund));
    if locks == Locks::On {
        let client = orders.locks();
        let policy = client.policy("refunds")?;
        let layer = LockLayer::http()
            .key("order:{path.id}") // the lock of `Orders::pay`
            .client(client.clone())
            .options(client.options_of(&policy, policy.settings())?)
            .build()?;
        refund = refund.route_layer(layer);
    }
    let pay = match locks {
        Locks::On => post(pay),
        Locks::Off => post(pay_unlocked),
    };
    Ok(Router::new()
        .route("/orders/{id}/pay", pay)
        .route("/orders/{id}", get(balance))
        .route("/healthz", get(health))
        .merge(refund)
        .with_state(orders))
}

#[derive(Deserialize)]
struct Amount {
    cents: u64,
}

#[derive(Serialize)]
struct Balance {
    order: String,
    cents: u64,
}

async fn balance(
    State(orders): State<Orders>,
    Path(order): Path<String>,
) -> Result<Json<Balance>, OrderError> {
    let cents = orders.balance(&order).await?;
    Ok(Json(Balance { order, cents }))
}

async fn pay(
    State(orders): State<Orders>,
    Path(order): Path<String>,
    Json(Amount { cents }): Json<Amount>,
) -> Result<Json<Balance>, OrderError> {
    let cents = orders.pay(&order, cents).await?;
    Ok(Json(Balance { order, cents }))
}

async fn pay_unlocked(
    State(orders): State<Orders>,
    Path(order): Path<String>,
    Json(Amount { cents }): Json<Amount>,
) -> Result<Json<Balance>, OrderError> {
    let cents = orders.pay_unlocked(&order, cents).await?;
    Ok(Json(Balance { order, cents }))
}

async fn refund(
    State(orders): State<Orders>,
    Path(order): Path<String>,
    Json(Amount { cents }): Json<Amount>,
) -> Result<Json<Balance>, OrderError> {
    let cents = orders.refund(&order, cents).await?;
    Ok(Json(Balance { order, cents }))
}

/// For a readiness probe: not ready while locks that this process holds are about to be lost.
async fn health(State(orders): State<Orders>) -> (StatusCode, &'static str) {
    match orders.locks().health().is_healthy() {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "locks cannot be renewed\n"),
    }
}
