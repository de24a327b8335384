//! HTTP in front of [`Orders`].

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use lock_tower::{HeldLock, LockLayer};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::{Deserialize, Serialize};

use crate::error::OrderError;
use crate::service::Orders;
use crate::{Failure, Locks};

/// All routes, under the layer that locks those in `[[lock.routes]]`.
pub(crate) fn app(
    orders: Orders,
    locks: Locks,
    metrics: PrometheusHandle,
) -> Result<Router, Failure> {
    let layer = LockLayer::routes(orders.locks())?;
    let pay = match locks {
        Locks::On => post(pay),
        Locks::Off => post(pay_unlocked),
    };
    Ok(Router::new()
        .route("/orders/{id}/pay", pay)
        .route("/orders/{id}/refund", post(refund))
        .route("/orders/{id}", get(balance))
        .route("/healthz", get(health))
        .route("/metrics", get(async move || metrics.render()))
        .layer(layer)
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

/// Answers 500 if the layer is missing, or the configuration has no route for it.
async fn refund(
    State(orders): State<Orders>,
    Path(order): Path<String>,
    held: HeldLock,
    Json(Amount { cents }): Json<Amount>,
) -> Result<Json<Balance>, OrderError> {
    let cents = orders.refund(&order, cents, held.token()).await?;
    Ok(Json(Balance { order, cents }))
}

/// For a readiness probe: not ready while renewals of locks that this process holds fail.
async fn health(State(orders): State<Orders>) -> (StatusCode, &'static str) {
    match orders.locks().health().is_healthy() {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "locks cannot be renewed\n"),
    }
}
