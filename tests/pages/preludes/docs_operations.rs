use axum::http::StatusCode;
use lock_runtime::LockClient;
