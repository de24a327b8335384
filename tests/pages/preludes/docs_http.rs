// Statements run with:
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderValue;

/// The server of any generated service.
type OrdersServer = tonic_health::pb::health_server::HealthServer<tonic_health::server::HealthService>;

#[derive(Clone, lock_runtime::KeyPart)]
struct UserId(u64);

/// A table of answers.
#[derive(Clone)]
struct Answers;

impl Answers {
    async fn find(&self, user: &UserId, key: &HeaderValue) -> Option<String> {
        None
    }

    async fn save(&self, user: &UserId, key: &HeaderValue, answer: String) -> String {
        answer
    }
}

async fn charge() -> String {
    "charged".to_owned()
}

async fn pay() -> &'static str {
    "paid"
}

#[derive(serde::Deserialize)]
struct Cart {
    id: u64,
}
