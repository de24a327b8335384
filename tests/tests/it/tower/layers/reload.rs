//! Another configuration while requests are under way, over Redis: what is held keeps its lock, what
//! waits goes on, and no request is lost.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;

use crate::tower::layers::connection::{self, Client, frame};
use crate::tower::prelude::*;

const CLIENTS: usize = 12;
const ORDERS: usize = 3;

/// Says of an order's lock what has every request served, each in other words.
const PATIENT: [&str; 5] = [
    "key = 'order:{path.id}'\nwait = '30s'",
    "key = 'order:{header.x-order}'\nwait = 'forever'\nmax_waiters = 500",
    "key = 'order:{query.order}'\nbase = 'patient'\nlease = '20s'",
    "key = 'order:{path.id}'\nmax_hold = '1m'\nhttp = { methods = ['POST', 'PUT'], busy = 423 }",
    "key = 'order:{header.x-order}'\nwait = '20s'\nhttp = { hold = 'response' }",
];

/// The same, and there are requests that are sent away.
const IMPATIENT: [&str; 5] = [
    PATIENT[0],
    "key = 'order:{path.id}'\nwait = 'none'",
    "key = 'order:{query.order}'\nmax_waiters = 1",
    PATIENT[1],
    "key = 'order:{header.x-order}'\nwait = 'none'\nhttp = { busy = 423 }",
];

/// A configuration with that policy for orders.
fn text(order: &str) -> String {
    format!(
        "[lock.base.patient]\nwait = '25s'\n\
         [lock.policies.order]\n{order}\n\
         [lock.policies.stream]\nkey = 'stream:{{path.id}}'\nwait = 'none'\n\
         [[lock.routes]]\npath = '/orders/{{id}}'\npolicy = 'order'\n\
         [[lock.routes]]\npath = '/streams/{{id}}'\npolicy = 'stream'\n"
    )
}

/// What an order's lock protects.
#[derive(Default)]
struct Order {
    entered: AtomicBool,
    effects: AtomicUsize,
    tokens: Mutex<Vec<u64>>,
}

/// The application.
#[derive(Default)]
struct Shop {
    orders: [Order; ORDERS],
    /// How often two were in one order at once.
    crossed: AtomicUsize,
    lines: Mutex<Option<mpsc::UnboundedReceiver<Option<usize>>>>,
}

/// Adds one in two steps, which only a lock keeps apart.
async fn add(Path(id): Path<usize>, State(shop): State<Arc<Shop>>, held: HeldLock) {
    let order = &shop.orders[id];
    if order.entered.swap(true, Ordering::SeqCst) {
        shop.crossed.fetch_add(1, Ordering::SeqCst);
    }
    let seen = order.effects.load(Ordering::SeqCst);
    order.tokens.lock().unwrap().push(held.token().get());
    tokio::task::yield_now().await;
    order.effects.store(seen + 1, Ordering::SeqCst);
    order.entered.store(false, Ordering::SeqCst);
}

/// Sends a line for each number that it is given, with the token under which it does.
async fn tell(State(shop): State<Arc<Shop>>, held: Option<HeldLock>) -> Response {
    let lines = shop.lines.lock().unwrap().take();
    let (Some(lines), Some(held)) = (lines, held) else { return "free".into_response() };
    let lines = stream::unfold((lines, held), async |(mut lines, held)| {
        let line = format!("{} {} {}\n", lines.recv().await??, held.token(), held.is_lost());
        Some((Ok::<_, Infallible>(line), (lines, held)))
    });
    Body::from_stream(lines).into_response()
}

/// A server, its client of locks, and all that a test looks at.
struct World {
    redis: RedisServer,
    locks: LockClient,
    shop: Arc<Shop>,
    address: SocketAddr,
    lines: mpsc::UnboundedSender<Option<usize>>,
}

impl World {
    async fn start() -> Self {
        let redis = RedisServer::start().await;
        // What is held for longer than that is renewed.
        let lease = LockOptions::new().lease(Lease::Watchdog(secs(3)));
        let locks = LockClient::builder().options(lease).config(config(&text(PATIENT[0])));
        let locks = locks.connect(&redis.url()).await.unwrap();
        let (lines, told) = mpsc::unbounded_channel();
        let shop = Arc::new(Shop { lines: Mutex::new(Some(told)), ..Shop::default() });
        let app = Router::new()
            .route("/orders/{id}", post(add))
            .route("/streams/{id}", post(tell))
            .layer(LockLayer::routes(&locks).unwrap())
            .with_state(Arc::clone(&shop));
        Self { redis, locks, shop, address: connection::serve(app).await, lines }
    }

    fn reload(&self, text: &str) {
        self.locks.reload(config(text)).unwrap();
    }

    async fn client(&self, version: u8) -> Client {
        Client::connect(self.address, version).await
    }

    /// Begins an answer that is held until the last sender of lines is gone.
    async fn begin_stream(&self, client: &mut Client) -> Held {
        self.lines.send(Some(0)).unwrap();
        let mut body = client.send(connection::asks("/streams/1")).await.into_body();
        let first = line(&mut body).await;
        let owner = self.redis.client().hgetall(STREAM).await;
        assert_eq!(owner.len(), 1, "{owner:?}");
        Held { body, token: first.strip_prefix("0 ").unwrap().to_owned(), owner }
    }

    /// What must be true in the end, of so many requests that were served.
    async fn assert_all_is_well(&self, served: usize) {
        let effects = self.shop.orders.iter().map(|order| order.effects.load(Ordering::SeqCst));
        assert_eq!(effects.sum::<usize>(), served);
        assert_eq!(self.shop.crossed.load(Ordering::SeqCst), 0, "two were in an order at once");
        for order in &self.shop.orders {
            let tokens = order.tokens.lock().unwrap();
            assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        }
        let redis = self.redis.client();
        soon!(
            "all is free",
            redis.keys().await.iter().all(|key| key.starts_with("redisson_lock_token:"))
        );
    }
}

/// An answer under way, and what it began with.
struct Held {
    body: Incoming,
    token: String,
    owner: BTreeMap<String, String>,
}

impl Held {
    /// It goes on, by the same lock.
    async fn says(&mut self, world: &World, n: usize) {
        world.lines.send(Some(n)).unwrap();
        assert_eq!(line(&mut self.body).await, format!("{n} {}", self.token));
        assert_eq!(world.redis.client().hgetall(STREAM).await, self.owner);
    }

    /// The lock keeps others out as well.
    async fn goes_on(&mut self, world: &World, n: usize, other: &mut Client) {
        self.says(world, n).await;
        assert_eq!(other.send(connection::asks("/streams/1")).await.status(), 409);
    }

    /// It ends as a whole, and the next may come.
    async fn ends(mut self, world: &World, other: &mut Client) {
        world.lines.send(None).unwrap();
        assert!(frame(&mut self.body).await.is_none());
        is_served(other).await;
    }
}

/// The stream is free for the next request.
async fn is_served(client: &mut Client) {
    let next = client.send(connection::asks("/streams/1")).await;
    assert_eq!(next.status(), 200);
    assert_eq!(next.into_body().collect().await.unwrap().to_bytes(), "free");
}

const STREAM: &str = "stream:1";

async fn line(body: &mut Incoming) -> String {
    let line = frame(body).await.unwrap().unwrap();
    String::from_utf8(line.to_vec()).unwrap()
}

/// Asks for an order's lock by all the names that it has.
async fn ask(client: &mut Client, id: usize) -> StatusCode {
    let mut request = connection::asks(&format!("/orders/{id}?order={id}"));
    request.headers_mut().insert("x-order", id.into());
    client.send(request).await.status()
}

type Statuses = BTreeMap<u16, usize>;

/// The pause of a client between two requests, which leaves the processor to the tests that run beside this.
const PAUSE: Duration = ms(1);

/// Clients that ask until they are told that it is enough.
async fn hammer(world: &World, enough: &Arc<AtomicBool>) -> Vec<tokio::task::JoinHandle<Statuses>> {
    let clients = join_all((0..CLIENTS).map(|n| world.client(1 + (n % 2) as u8))).await;
    let hammer = |(n, mut client): (usize, Client)| {
        let enough = Arc::clone(enough);
        lock_tests::spawn(async move {
            let mut statuses = Statuses::new();
            for at in n.. {
                let status = ask(&mut client, at % ORDERS).await;
                *statuses.entry(status.as_u16()).or_default() += 1;
                if enough.load(Ordering::SeqCst) {
                    break;
                }
                sleep(PAUSE).await;
            }
            statuses
        })
    };
    clients.into_iter().enumerate().map(hammer).collect()
}

/// Reloads under load, for longer than a lease lasts. Says what was answered.
async fn come_and_go(world: &World, orders: &[&str]) -> Statuses {
    let mut own = Statuses::new();
    let (mut other, mut holder) = (world.client(1).await, world.client(2).await);
    let mut held = world.begin_stream(&mut holder).await;
    let enough = Arc::new(AtomicBool::new(false));
    let clients = hammer(world, &enough).await;
    let start = Instant::now();
    for n in 1.. {
        match n % 8 {
            // Refused as a whole.
            3 => {
                let before = world.locks.config().unwrap();
                let elsewhere = format!("[lock]\nnamespace = 'n'\n{}", text(orders[0]));
                assert!(world.locks.reload(config(&elsewhere)).is_err());
                assert!(Arc::ptr_eq(&before, &world.locks.config().unwrap()));
            }
            // Sound, and nothing that the layer could follow.
            6 => {
                let misfit = text("key = 'order:{ext.order}'\nwait = 'none'");
                let error = world.locks.reload(config(&misfit)).unwrap_err();
                assert!(error.to_string().contains("ext.order"), "{error}");
            }
            _ => world.reload(&text(orders[n % orders.len()])),
        }
        *own.entry(ask(&mut other, n % ORDERS).await.as_u16()).or_default() += 1;
        held.goes_on(world, n, &mut other).await;
        if n >= 48 && start.elapsed() > ms(3500) {
            break;
        }
    }
    enough.store(true, Ordering::SeqCst);
    for client in clients {
        for (status, count) in client.await.unwrap() {
            *own.entry(status).or_default() += count;
        }
    }
    held.ends(world, &mut other).await;
    own
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_while_routes_come_and_go() {
    let world = World::start().await;
    let statuses = come_and_go(&world, &PATIENT).await;
    assert!(statuses.keys().eq(&[200]), "{statuses:?}");
    world.assert_all_is_well(statuses[&200]).await;
}

/// Refused is the request that the configuration in effect refuses, and none of them has had an effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_while_routes_come_and_go_has_done_nothing() {
    let world = World::start().await;
    let statuses = come_and_go(&world, &IMPATIENT).await;
    let answers: Vec<_> = statuses.keys().copied().collect();
    assert_eq!(answers, [200, 409, 423, 503], "{statuses:?}");
    world.assert_all_is_well(statuses[&200]).await;
}

/// A route that is taken out of the file: what is held is held to its end, and what comes runs without
/// a lock. Put back, it locks again.
#[tokio::test]
async fn a_route_that_goes_leaves_what_it_holds() {
    let with = text(PATIENT[0]);
    let (without, _) = with.rsplit_once("[[lock.routes]]").unwrap();
    let world = World::start().await;
    let (mut holder, mut other) = (world.client(2).await, world.client(1).await);
    let mut held = world.begin_stream(&mut holder).await;
    held.goes_on(&world, 1, &mut other).await;
    world.reload(without);
    for n in 2..20 {
        is_served(&mut other).await;
        held.says(&world, n).await;
    }
    world.reload(&with);
    held.goes_on(&world, 20, &mut other).await;
    world.reload(without);
    held.ends(&world, &mut other).await;
    world.assert_all_is_well(0).await;
}
