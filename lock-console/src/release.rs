//! Releasing a lock from the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use lock_runtime::{LockClient, LockError};
use serde::Deserialize;
use serde_json::json;

use crate::Console;
use crate::surveys::sentence;

#[derive(Deserialize)]
pub(crate) struct Asked {
    /// The full name of the lock, as the survey has it.
    name: String,
    /// The same, typed by the operator.
    typed: String,
}

/// Releases a lock by force, if the console may, and if its own page asks.
pub(crate) async fn release(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    Json(asked): Json<Asked>,
) -> Response {
    if !console.allow_release {
        return refused(StatusCode::FORBIDDEN, "this console may not release locks");
    }
    if !console.access.is_own(&headers) {
        return refused(StatusCode::FORBIDDEN, "a release has to come from the console's own page");
    }
    if asked.name != asked.typed {
        let message = "the typed name is not the name of the lock";
        return refused(StatusCode::UNPROCESSABLE_ENTITY, message);
    }
    let Some(name) = without_namespace(&console.client, &asked.name) else {
        return refused(StatusCode::CONFLICT, "the lock is in another namespace");
    };
    tracing::warn!(lock.name = asked.name, "a release by force is asked for in the console");
    match console.client.force_release(name).await {
        Ok(true) => Json(json!({ "released": true })).into_response(),
        Ok(false) => refused(StatusCode::CONFLICT, "the lock is not held"),
        Err(error) => refused(status_of(&error), &sentence(&error)),
    }
}

/// The name as the client's methods take it.
fn without_namespace<'a>(client: &LockClient, name: &'a str) -> Option<&'a str> {
    const ANY: &str = "x";
    let key = client.key(ANY).ok()?;
    name.strip_prefix(key.as_str().strip_suffix(ANY)?)
}

fn status_of(error: &LockError) -> StatusCode {
    match error {
        LockError::KeyCollision { .. } => StatusCode::CONFLICT,
        LockError::InvalidKey { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn refused(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({ "error": error }))).into_response()
}
