//! Several spellings of one value, which the handler does not tell apart: one lock, where the key says the type.

use axum::extract::Path;
use axum::routing::any;
use lock_tower::HeldLock;

use crate::tower::layers::policies::config;
use crate::tower::prelude::*;

/// What the handlers share: how many of them run, and how many did at most.
#[derive(Clone)]
struct Desk {
    locks: LockClient,
    inside: watch::Sender<usize>,
    most: Arc<AtomicUsize>,
}

impl Desk {
    fn new(locks: LockClient) -> Self {
        Self { locks, inside: watch::Sender::new(0), most: Arc::default() }
    }

    /// Stays until another handler is there as well, or for long enough that it would be.
    async fn serve(&self) {
        let mut others = self.inside.subscribe();
        self.inside.send_modify(|inside| *inside += 1);
        let _ = timeout(ms(300), others.wait_for(|inside| *inside > 1)).await;
        self.most.fetch_max(*self.inside.borrow(), Ordering::SeqCst);
        self.inside.send_modify(|inside| *inside -= 1);
    }

    /// How many of the requests run at once at most.
    async fn most_of(&self, app: &Router, requests: Vec<Request<Body>>) -> usize {
        self.most.store(0, Ordering::SeqCst);
        let answers = requests.into_iter().map(|request| app.clone().oneshot(request));
        for answer in join_all(answers).await {
            assert_eq!(answer.unwrap().status(), StatusCode::OK);
        }
        self.most.load(Ordering::SeqCst)
    }
}

fn posts(paths: &[&str]) -> Vec<Request<Body>> {
    let post = |path: &&str| Request::post(*path).body(Body::empty()).unwrap();
    paths.iter().map(post).collect()
}

/// Without re-entry it would find its own lock busy.
#[distributed_lock(key = "order:{id}", wait = none, client = locks, guard = hold)]
async fn charge(locks: &LockClient, id: u64) -> Result<FencingToken, LockError> {
    Ok(hold.token())
}

async fn pay(Path(id): Path<u64>, held: HeldLock, State(desk): State<Desk>) {
    let token = charge(&desk.locks, id).await.unwrap();
    assert_eq!(token, held.token(), "one hold, the layer's");
    desk.serve().await;
}

async fn serve(State(desk): State<Desk>) {
    desk.serve().await;
}

const ORDERS: [&str; 3] = ["/orders/42/pay", "/orders/042/pay", "/orders/+42/pay"];

async fn spellings_exclude_each_other(locks: LockClient) {
    let desk = Desk::new(locks.clone());
    let layer = |key: &str| LockLayer::http().key(key).client(locks.clone()).build().unwrap();

    let typed = Router::new().route("/orders/{id}/pay", post(pay));
    let typed = typed.route_layer(layer("order:{path.id:u64}")).with_state(desk.clone());
    assert_eq!(desk.most_of(&typed, posts(&ORDERS)).await, 1);

    // Text stays the text of the request.
    let text = Router::new().route("/orders/{id}/pay", post(serve));
    let text = text.route_layer(layer("text:{path.id}")).with_state(desk.clone());
    assert!(desk.most_of(&text, posts(&ORDERS)).await > 1);

    let users = Router::new().route("/users/{id}", post(serve));
    let users = users.route_layer(layer("user:{path.id:uuid}")).with_state(desk.clone());
    let spellings = [
        "/users/67e55044-10b1-426f-9247-bb680e5fe0c8",
        "/users/67E55044-10B1-426F-9247-BB680E5FE0C8",
        "/users/67e5504410b1426f9247bb680e5fe0c8",
        "/users/%7B67e55044-10b1-426f-9247-bb680e5fe0c8%7D",
        "/users/urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
    ];
    assert_eq!(desk.most_of(&users, posts(&spellings)).await, 1);

    let asked = Router::new().route("/asked", post(serve));
    let asked = asked.route_layer(layer("asked:{query.id:i32}")).with_state(desk.clone());
    let spellings = ["/asked?id=7", "/asked?id=007", "/asked?id=%2B7"];
    assert_eq!(desk.most_of(&asked, posts(&spellings)).await, 1);

    let told = Router::new().route("/told", post(serve));
    let told = told.route_layer(layer("told:{header.x-id:u16}")).with_state(desk.clone());
    let requests = ["7", "+7", "07"]
        .map(|id| Request::post("/told").header("x-id", id).body(Body::empty()).unwrap());
    assert_eq!(desk.most_of(&told, requests.into()).await, 1);
}

#[tokio::test]
async fn spellings_exclude_each_other_in_redis() {
    let server = RedisServer::start().await;
    spellings_exclude_each_other(LockClient::connect(&server.url()).await.unwrap()).await;
}

/// The same in a file: in a policy, and in a route of its own.
#[tokio::test]
async fn keys_of_a_file_have_types() {
    let text = "[lock.policies.pay]\nkey = 'order:{path.id:u64}'\n\
                [[lock.routes]]\npath = '/orders/{id}/pay'\npolicy = 'pay'\n\
                [[lock.routes]]\npath = '/bills/{id}'\npolicy = 'pay'\nkey = 'bill:{path.id:u8}'";
    let locks = LockClient::builder().config(config(text)).in_memory().unwrap();
    let desk = Desk::new(locks.clone());
    let app = Router::new().route("/orders/{id}/pay", post(pay)).route("/bills/{id}", any(serve));
    let app = app.route_layer(LockLayer::routes(&locks).unwrap()).with_state(desk.clone());
    assert_eq!(desk.most_of(&app, posts(&ORDERS)).await, 1);
    assert_eq!(desk.most_of(&app, posts(&["/bills/7", "/bills/007"])).await, 1);
    let refused = app.oneshot(posts(&["/bills/256"]).remove(0)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}
