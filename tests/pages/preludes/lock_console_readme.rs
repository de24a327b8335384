// Statements have: client: LockClient
use axum::Router;
use lock_console::ConsoleOptions;
use lock_runtime::LockClient;
