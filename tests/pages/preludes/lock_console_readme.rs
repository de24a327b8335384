// Statements have: client: LockClient
// Statements run with: LockClient::in_memory()
use axum::Router;
use lock_console::ConsoleOptions;
use lock_runtime::LockClient;
