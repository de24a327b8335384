//! Layers compared with the runtime call that they make, in memory, where a lock costs least.

use std::convert::Infallible;
use std::future::ready;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response};
use lock_runtime::policy::LockConfig;
use lock_runtime::{LockClient, LockKey, LockKind};
use lock_tower::LockLayer;
use tower::service_fn;
use tower_layer::Layer;
use tower_service::Service;

use super::Call;
use super::only;
use super::overhead::{Form, Round, records, round};
use crate::Result;
use crate::record::Record;
use crate::timing::Timing;

const CASE: &str = "layer: a request under a lock, in-memory store";

/// A service's configuration: many routes, of which the last is the request's.
const ROUTES: usize = 1000;

/// The most nanoseconds of a call beyond the call by hand.
const MOST: f64 = 1_000.0;

/// The response of the inner service, with an empty body.
fn answer(request: &Request<String>) -> Response<String> {
    std::hint::black_box(request);
    Response::new(String::new())
}

fn request() -> Request<String> {
    let mut request = Request::new(String::new());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static("/orders/7/pay");
    request
}

fn key() -> std::result::Result<LockKey, lock_runtime::LockError> {
    LockKey::builder().text("order:").part("7").build()
}

/// The work of a layer, written by hand.
async fn by_hand(client: &LockClient) -> Result<()> {
    let request = request();
    let guard = client.any_lock(LockKind::Mutex, [key()?]).lock().await?;
    let response = guard.run(async { answer(&request) }).await?;
    guard.release().await?;
    drop(response);
    Ok(())
}

/// Calls a service as a server with one service for each connection does.
fn form<'a, S>(name: &'static str, service: S) -> Form<'a>
where
    S: Service<Request<String>, Error: std::error::Error + Send + Sync + 'static> + Send + 'a,
    S::Future: Send,
    S::Response: Send,
{
    let service = Mutex::new(service);
    Form::new(name, move || {
        let called = service.lock().unwrap_or_else(PoisonError::into_inner).call(request());
        async move {
            drop(called.await?);
            Ok(())
        }
    })
}

/// Measures the case.
pub(super) async fn run(timing: Timing) -> Result<Vec<Record>> {
    let mut rounds = Vec::new();
    for _ in 0..timing.rounds {
        rounds.push(tokio::spawn(one(timing.turn)).await??);
    }
    Ok(records(CASE, &rounds, MOST))
}

async fn one(turn: Duration) -> Result<Round> {
    let client = LockClient::builder().config(many_routes()?).in_memory()?;
    round(&forms(&client)?, turn).await
}

/// Makes so many calls of one form.
pub(super) async fn calls(call: Call, count: u32) -> Result<()> {
    let client = LockClient::builder().config(many_routes()?).in_memory()?;
    only(&forms(&client)?, call, count).await
}

fn forms(client: &LockClient) -> Result<[Form<'_>; 4]> {
    let generic = LockLayer::new(client.clone(), |_: &Request<String>| key().map(Some));
    let http = LockLayer::http().key("order:{path.id}").route("/orders/{id}/pay");
    let http = http.client(client.clone()).build()?;
    let routes = LockLayer::routes(client)?;
    let handler = service_fn(|request| ready(Ok::<_, Infallible>(answer(&request))));
    Ok([
        Form::new(Call::LayerByHand.form(), || by_hand(client)),
        form(Call::Layer.form(), generic.layer(handler)),
        form(Call::HttpLayer.form(), http.layer(handler)),
        form(Call::RoutesLayer.form(), routes.layer(handler)),
    ])
}

fn many_routes() -> Result<LockConfig> {
    let mut text = String::from("[lock.policies.pay]\nkey = 'order:{path.id}'\n");
    for n in 1..ROUTES {
        text += &format!("[[lock.routes]]\npath = '/other{n}/{{id}}/pay'\npolicy = 'pay'\n");
    }
    text += "[[lock.routes]]\npath = '/orders/{id}/pay'\npolicy = 'pay'\n";
    Ok(LockConfig::from_toml(&text)?)
}
