//! Which value wins: of the client's options, the defaults, the bases, the policy, a literal, and the call.

use std::convert::Infallible;
use std::future::ready;

use super::*;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use http::{Request, Response, StatusCode};
use lock_runtime::options::{OnLost, OnReleaseLost, Replicas};
use tower::{Layer, ServiceExt, service_fn};

/// The layers that speak, as bits from the lowest: defaults, far base, near base, policy.
const LAYERS: [(u8, &str, u64); 4] = [
    (1, "lock.defaults", 1),
    (2, "lock.base.far", 2),
    (4, "lock.base.near", 3),
    (8, "lock.policies.checkout", 4),
];

/// A configuration in which the layers of `speaking` each say how long to wait.
fn configured(speaking: u8) -> LockConfig {
    let mut text = String::new();
    for (bit, table, seconds) in LAYERS {
        text += &format!("[{table}]\n");
        text += match table {
            "lock.base.near" => "base = 'far'\n",
            "lock.policies.checkout" => "base = 'near'\n",
            _ => "",
        };
        if speaking & bit != 0 {
            text += &format!("wait = '{seconds}s'\n");
        }
    }
    read(&text).unwrap()
}

fn seconds(seconds: u64) -> Wait {
    Wait::UpTo(secs(seconds))
}

fn client_with(config: LockConfig) -> LockClient {
    let options = LockOptions::new().wait(seconds(60));
    LockClient::builder().options(options).config(config).in_memory().unwrap()
}

#[distributed_lock(key = "a", policy = "checkout", client = client)]
async fn without_a_literal(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

#[distributed_lock(key = "a", policy = "checkout", client = client, wait = "9s")]
async fn with_a_literal(client: &LockClient) -> Result<(), LockError> {
    let _ = client;
    Ok(())
}

/// Sends a request through a layer with that literal, for which the lock is busy.
async fn request(client: &LockClient, literal: Option<u64>) {
    let layer = LockLayer::http().client(client.clone()).key("a").policy("checkout");
    let layer = literal.into_iter().fold(layer, |layer, literal| layer.wait(seconds(literal)));
    let handler = |_: Request<String>| ready(Ok::<_, Infallible>(Response::new(String::new())));
    let service = layer.build().unwrap().layer(service_fn(handler));
    let answer = service.oneshot(Request::post("/").body(String::new()).unwrap()).await;
    assert_eq!(answer.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// Returns for how long a call waits, in seconds.
async fn waited<T>(call: impl Future<Output = T>) -> (u64, T) {
    let start = Instant::now();
    let output = call.await;
    (start.elapsed().as_secs(), output)
}

/// Every combination of layers that speak, with a literal of an attribute or an HTTP layer and without one. Where none
/// speaks, the client's own options hold, and a call has the last word.
#[tokio::test(start_paused = true)]
async fn the_highest_layer_that_speaks_wins() {
    for speaking in 0..16_u8 {
        let from_file = LAYERS.iter().rfind(|(bit, ..)| speaking & bit != 0).map(|layer| layer.2);
        let client = client_with(configured(speaking));
        let policy = client.policy("checkout").unwrap();
        assert_eq!(policy.wait, from_file.map(seconds), "{speaking:04b}");
        let expected = from_file.unwrap_or(60);
        let held = client.mutex("a").lock().await.unwrap();
        let lock = || client.policy_lock("checkout", ["a"]);
        let ends = async |call: BoxFuture<'_, Result<(), LockError>>, expected: u64| {
            let (time, outcome) = waited(call).await;
            assert!(matches!(outcome, Err(LockError::Timeout { .. })), "{outcome:?}");
            assert_eq!(time, expected, "{speaking:04b}");
        };
        ends(lock().lock().map_ok(drop).boxed(), expected).await;
        ends(lock().wait(seconds(9)).lock().map_ok(drop).boxed(), 9).await;
        ends(without_a_literal(&client).boxed(), expected).await;
        ends(with_a_literal(&client).boxed(), 9).await;
        assert_eq!(waited(request(&client, None)).await.0, expected, "{speaking:04b}");
        assert_eq!(waited(request(&client, Some(9))).await.0, 9, "{speaking:04b}");
        held.release().await.unwrap();
    }
}

fn policy(text: &str) -> Policy {
    read(text).unwrap().policy("p").unwrap()
}

#[test]
fn every_field_is_inherited() {
    let all = r#"
        [lock.base.b]
        key = "cart:{path.id}"
        kind = "semaphore(3)"
        wait = "forever"
        lease = "watchdog 40s"
        on_lost = "finish"
        on_release_lost = "error"
        at_least = "1s"
        max_hold = "5m"
        max_waiters = 100
        release_timeout = "100ms"
        replicas = { acks = 1, timeout = "200ms" }
        enforce = false
        [lock.policies.p]
        base = "b"
        "#;
    let inherited = policy(all);
    let mut expected = Policy::default();
    expected.key = Some("cart:{path.id}".to_owned());
    expected.kind = Some(LockKind::Semaphore(3));
    expected.wait = Some(Wait::Forever);
    expected.lease = Some(Lease::Watchdog(secs(40)));
    expected.on_lost = Some(OnLost::Finish);
    expected.on_release_lost = Some(OnReleaseLost::Error);
    expected.at_least = Some(secs(1));
    expected.max_hold = Some(secs(300));
    expected.max_waiters = Some(100);
    expected.release_timeout = Some(ms(100));
    expected.replicas = Some(Replicas::new(1, ms(200)));
    expected.enforce = Some(false);
    assert_eq!(inherited, expected);

    let own = policy(&format!("{all}\nkey = 'k'\nkind = 'read'\nenforce = true\nmax_waiters = 7"));
    expected.key = Some("k".to_owned());
    expected.kind = Some(LockKind::Read);
    expected.enforce = Some(true);
    expected.max_waiters = Some(7);
    assert_eq!(own, expected);
}

/// The settings for layers are inherited one by one, and so reported.
#[test]
fn http_settings_are_inherited_one_by_one() {
    let text = |busy: &str| {
        read(&format!(
            "[lock.defaults]\nhttp = {{ hold = 'body' }}\n[lock.base.b]\nhttp = {{ busy = {busy} }}\n\
             [lock.policies.p]\nbase = 'b'\nkey = 'k'\nhttp = {{ methods = ['PUT'] }}"
        ))
        .unwrap()
    };
    let written = serde_json::to_value(text("423").policy("p").unwrap()).unwrap();
    let expected = serde_json::json!({ "hold": "body", "busy": 423, "methods": ["PUT"] });
    assert_eq!(written["http"], expected);
    let client = client_with(text("404"));
    let error = LockLayer::http().client(client).policy("p").build().unwrap_err();
    assert!(error.to_string().contains(": lock.base.b.http.busy: "), "{error}");
}
