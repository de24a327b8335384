//! What the cases have in common: a service to lock, a store to look into or to break, a log.

use http_body::Body as HttpBody;
use tower::util::BoxCloneService;

use crate::tower::prelude::*;

/// Plenty for anything that takes a few polls.
pub(crate) const PROMPTLY: Duration = secs(5);

/// The lock of a request to pay for order 42.
pub(crate) const ORDER: &str = "order:42";

pub(crate) type TestBody = Full<Bytes>;
pub(crate) type Handler = BoxCloneService<Request<TestBody>, Response<TestBody>, Infallible>;

/// A request to pay for order 42.
pub(crate) fn pay() -> Request<TestBody> {
    request("POST", "/orders/42/pay")
}

/// A request with that method, for that path, without a body.
pub(crate) fn request<B: Default>(method: &str, path: &str) -> Request<B> {
    Request::builder().method(method).uri(path).body(B::default()).unwrap()
}

/// A layer that locks the order.
pub(crate) fn order_layer(client: &LockClient) -> HttpLockLayerBuilder {
    LockLayer::http().key("order:{path.id}").route("/orders/{id}/pay").client(client.clone())
}

/// A layer that has the order's number from the router.
pub(crate) fn routed_layer(client: &LockClient) -> HttpLockLayerBuilder {
    LockLayer::http().key("order:{path.id}").client(client.clone())
}

pub(crate) fn waits_and_holds(wait: Wait, lease: Duration) -> LockOptions {
    LockOptions::new().wait(wait).lease(Lease::Fixed(lease))
}

pub(crate) fn config(text: &str) -> LockConfig {
    LockConfig::from_toml(text).unwrap()
}

/// A client with that configuration, and another process.
pub(crate) fn clients(text: &str) -> (LockClient, LockClient) {
    let store = MemoryStore::new();
    let locks = LockClient::builder().config(config(text)).store(store.clone()).unwrap();
    (locks, LockClient::builder().store(store.peer()).unwrap())
}

/// A service that runs this for each request and answers "done".
pub(crate) fn runs<F>(handler: impl Fn() -> F + Clone + Send + 'static) -> Handler
where
    F: Future<Output = ()> + Send + 'static,
{
    Handler::new(service_fn(move |_| {
        let ran = handler();
        async {
            ran.await;
            Ok(Response::new(Full::from("done")))
        }
    }))
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
    pub(crate) fn service(&self) -> Handler {
        let calls = self.clone();
        runs(move || {
            calls.add();
            async {}
        })
    }
}

/// Counts when it is dropped.
pub(crate) struct OnDrop(pub(crate) Calls);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add();
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

/// What a router answers to a request without a body.
pub(crate) async fn send(app: &Router, method: &str, path: &str) -> Response<Body> {
    let answer = app.clone().oneshot(request::<Body>(method, path));
    timeout(2 * PROMPTLY, answer).await.expect("a hang").unwrap()
}

/// Status, headers in order, and the body: what a client sees.
pub(crate) async fn seen<B>(response: Response<B>) -> String
where
    B: HttpBody<Error: std::fmt::Debug>,
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

/// The seconds after which an answer says to come back.
pub(crate) fn retry_after<B>(response: &Response<B>) -> u64 {
    response.headers()["retry-after"].to_str().unwrap().parse().unwrap()
}

/// Waits until no task holds the lock.
pub(crate) async fn free_soon(store: &MemoryStore, key: &str) {
    soon!("the lock is free", held(store, key) == 0);
}

/// How many hold the lock.
pub(crate) fn held(store: &MemoryStore, key: &str) -> usize {
    store.holders(key).0.len()
}

/// Acquires the lock at once and gives it back: it is free.
pub(crate) async fn is_free(client: &LockClient, key: &str, what: &str) {
    let guard = client.mutex(key).try_lock().await.unwrap();
    guard.unwrap_or_else(|| panic!("busy: {what}")).release().await.unwrap();
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
