//! HTTP in front of [`Orders`].

use std::error::Error;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use lock_runtime::LockOptions;
use lock_tower::LockLayer;
use serde::{Deserialize, Serialize};

use crate::service::{Locks, OrderError, Orders};

/// All routes. Without locks they are the same, but for the locks.
pub(crate) fn app(orders: Orders, locks: Locks) -> Result<Router, Box<dyn Error>> {
    let mut refund = Router::new().route("/orders/{id}/refund", post(self::refund));
    if locks == Locks::On {
        let options = LockOptions::builder().wait(Duration::from_secs(20)).build()?;
        let layer = LockLayer::http()
            .key("order:{path.id}") // the lock of `Orders::pay`
            .client(orders.locks().clone())
            .options(options)
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
        .route("/healthz", get(|| async { "ok\n" }))
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

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        // The chain of causes is for the log; it names keys.
        let mut cause = (&self as &dyn Error).source();
        let mut line = self.to_string();
        while let Some(error) = cause {
            line = format!("{line}: {error}");
            cause = error.source();
        }
        match &self {
            Self::TooMuch { .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, format!("{self}\n")).into_response()
            }
            Self::Lock(error) if error.is_retryable() => {
                eprintln!("{line}");
                (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]).into_response()
            }
            // A lost lock too: how far the payment came is not known.
            Self::Lock(_) | Self::Ledger(_) => {
                eprintln!("{line}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
