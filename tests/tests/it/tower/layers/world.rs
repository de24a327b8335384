//! What the cases have in common: a service to lock, a store to look into or to break, a log.

use http_body::Body;

use crate::tower::prelude::*;

/// Plenty for anything that takes a few polls.
pub(crate) const PROMPTLY: Duration = secs(5);

pub(crate) type TestBody = Full<Bytes>;

/// A request to pay for order 42.
pub(crate) fn pay() -> Request<TestBody> {
    Request::post("/orders/42/pay").body(Full::default()).unwrap()
}

/// A layer that locks the order.
pub(crate) fn order_layer(client: &LockClient) -> HttpLockLayerBuilder {
    LockLayer::http().key("order:{path.id}").route("/orders/{id}/pay").client(client.clone())
}

pub(crate) fn options(wait: Wait) -> LockOptions {
    waits(wait)
}

pub(crate) fn waits_and_holds(wait: Wait, lease: Duration) -> LockOptions {
    LockOptions::new().wait(wait).lease(Lease::Fixed(lease))
}

/// Counts what got through to the handler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<AtomicUsize>);

impl Calls {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// A service that counts its calls and answers "done".
    pub(crate) fn service(
        &self,
    ) -> impl Service<
        Request<TestBody>,
        Response = Response<TestBody>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + use<> {
        let calls = self.clone();
        service_fn(move |_| {
            calls.add();
            async { Ok(Response::new(Full::from("done"))) }
        })
    }
}

/// What a layer around a handler that answers "done" answers.
pub(crate) async fn ask(
    layer: &HttpLockLayer,
    request: Request<TestBody>,
) -> Response<LockBody<TestBody>> {
    let answer = layer.layer(Calls::default().service()).oneshot(request);
    timeout(2 * PROMPTLY, answer).await.expect("a hang").unwrap()
}

pub(crate) async fn status(layer: &HttpLockLayer, request: Request<TestBody>) -> u16 {
    ask(layer, request).await.status().as_u16()
}

/// A request with that method, for that path.
pub(crate) fn request(method: &str, path: &str) -> Request<TestBody> {
    Request::builder().method(method).uri(path).body(TestBody::default()).unwrap()
}

/// Status, headers in order, and the body: what a client sees.
pub(crate) async fn seen<B>(response: Response<B>) -> String
where
    B: Body<Error: std::fmt::Debug>,
{
    let mut headers: Vec<_> = response
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    headers.sort();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    format!("{status}\n{}\n{}", headers.concat(), String::from_utf8_lossy(&body))
}

/// Waits until no task holds the lock.
pub(crate) async fn free_soon(store: &MemoryStore, key: &str) {
    soon!("the lock is free", held(store, key) == 0);
}

/// How many hold the lock.
pub(crate) fn held(store: &MemoryStore, key: &str) -> usize {
    store.holders(key).0.len()
}

/// Two processes' clients of one store, and the store to look into.
pub(crate) fn two_clients() -> (LockClient, LockClient, MemoryStore) {
    let store = MemoryStore::new();
    let client = |store| LockClient::builder().store(store).unwrap();
    (client(store.clone()), client(store.peer()), store)
}

/// A client to which the server is far away: a lock that is let go of behind the answer's back is seen to
/// be held when the answer is there.
pub(crate) async fn from_afar(server: &RedisServer) -> (LockClient, Proxy) {
    let proxy = Proxy::start(server.port()).await;
    proxy.delay_requests(ms(5));
    (connect(&proxy).await, proxy)
}
