//! Releasing a lock from the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{OriginalUri, State};
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
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    asked: Result<Json<Asked>, JsonRejection>,
) -> Response {
    if !console.allow_release {
        return refused(StatusCode::FORBIDDEN, "this console may not release locks");
    }
    if !console.access.is_own(&headers, &uri) {
        return refused(StatusCode::FORBIDDEN, "a release has to come from the console's own page");
    }
    let Json(asked) = match asked {
        Ok(asked) => asked,
        Err(error) => return refused(error.status(), &error.body_text()),
    };
    if asked.name != asked.typed {
        let message = "the typed name is not the name of the lock";
        return refused(StatusCode::UNPROCESSABLE_ENTITY, message);
    }
    let Some(name) = without_namespace(&console.client, &asked.name) else {
        return refused(StatusCode::CONFLICT, "the lock is in another namespace");
    };
    // Before the release, so that one whose outcome is never known is in the log, too.
    tracing::warn!(lock.name = asked.name, "an operator asks the console for a release by force");
    let released = console.client.admin().force_release(name).await;
    let is_released = matches!(released, Ok(true));
    tracing::warn!(lock.name = asked.name, is_released, "the release by force has ended");
    match released {
        Ok(true) => Json(json!({ "released": true })).into_response(),
        Ok(false) => refused(StatusCode::CONFLICT, "the lock is not held"),
        Err(error) => refused(status_of(&error), &sentence(&error)),
    }
}

/// The name as the client's methods take it.
fn without_namespace<'a>(client: &LockClient, name: &'a str) -> Option<&'a str> {
    match client.namespace() {
        Some(namespace) => name.strip_prefix(namespace)?.strip_prefix(':'),
        None => Some(name),
    }
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
