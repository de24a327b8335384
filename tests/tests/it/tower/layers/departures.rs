//! Clients that leave while their request waits for its lock, over real connections.

use std::net::Shutdown;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::serve;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::tower::prelude::*;

const ORDER: &str = "order:42";

/// How long a departed client may keep its place here. The layer promises 100 ms; a machine that builds
/// other things meanwhile is given more. A place that is kept is kept until the lock is free.
const LEFT: Duration = secs(2);

/// What a server and its handlers count.
#[derive(Debug, Clone, Default)]
struct Counts {
    requests: Arc<AtomicUsize>,
    handlers: Arc<AtomicUsize>,
}

/// Counts a request until its future is dropped.
struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn count(State(counts): State<Counts>, request: Request, next: Next) -> Response {
    counts.requests.fetch_add(1, Ordering::SeqCst);
    let _in_flight = InFlight(counts.requests);
    next.run(request).await
}

async fn pay(State(counts): State<Counts>, body: Bytes) -> Bytes {
    counts.handlers.fetch_add(1, Ordering::SeqCst);
    body
}

/// A server whose order is held by another process.
struct Server {
    address: SocketAddr,
    counts: Counts,
    busy: LockGuard,
}

impl Server {
    async fn start(adapt: impl FnOnce(HttpLockLayerBuilder) -> HttpLockLayerBuilder) -> Self {
        let (locks, peer, _) = two_clients();
        let busy = peer.mutex(ORDER).lock().await.unwrap();
        let counts = Counts::default();
        let layer = adapt(LockLayer::http().key("order:{path.id}").client(locks));
        let app = Router::new()
            .route("/orders/{id}/pay", post(pay).layer(DefaultBodyLimit::max(4 << 20)))
            .route_layer(layer.build().unwrap())
            .layer(from_fn_with_state(counts.clone(), count))
            .with_state(counts.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        lock_tests::spawn(serve(listener, app).into_future());
        Self { address, counts, busy }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    async fn waiting(&self, requests: usize) {
        soon!("they wait", self.requests() == requests);
    }

    /// Requires that no task waits any more, and that no handler runs when the lock is free.
    async fn no_request_is_left(self, what: &str) {
        let left_at = Instant::now();
        while self.requests() > 0 {
            assert!(
                left_at.elapsed() < patience(LEFT),
                "{what}: {} keep their places",
                self.requests()
            );
            sleep(ms(5)).await;
        }
        let handlers = self.counts.handlers.clone();
        self.busy.release().await.unwrap();
        // Another request is served, and it is the only one.
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(&head("content-length: 4")).await.unwrap();
        client.write_all(b"paid").await.unwrap();
        assert!(answer(&mut client, "paid").await.starts_with("HTTP/1.1 200"), "{what}");
        assert_eq!(handlers.load(Ordering::SeqCst), 1, "{what}: a departed client's handler ran");
    }
}

fn head(header: &str) -> Vec<u8> {
    format!("POST /orders/42/pay HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n").into_bytes()
}

/// What a client sees until that.
async fn answer(client: &mut TcpStream, until: &str) -> String {
    let mut seen = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&seen).contains(until) {
            assert_ne!(client.read_buf(&mut seen).await.unwrap(), 0, "the connection ended");
        }
    };
    timeout(PROMPTLY, read).await.expect("no answer");
    String::from_utf8(seen).unwrap()
}

/// What a client sends before it leaves: pieces, each in a packet of its own.
async fn leaves_after(what: &str, pieces: Vec<Vec<u8>>, finishes: bool) {
    let server = Server::start(|layer| layer.finish_on_disconnect(finishes)).await;
    let mut client = server.connect().await;
    client.set_nodelay(true).unwrap();
    for piece in pieces {
        client.write_all(&piece).await.unwrap();
        sleep(ms(30)).await;
    }
    server.waiting(1).await;
    drop(client);
    server.no_request_is_left(what).await;
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

#[tokio::test]
async fn a_departed_client_leaves_the_line_and_its_handler_never_runs() {
    let (chunked, body) = (head("transfer-encoding: chunked"), vec![b'x'; 60_000]);
    let end = b"0\r\n\r\n".to_vec();
    let cases = [
        ("no body", vec![head("content-length: 0")]),
        ("20 bytes", vec![head("content-length: 20"), vec![b'x'; 20]]),
        (
            "20 bytes in two packets",
            vec![head("content-length: 20"), vec![b'x'; 9], vec![b'x'; 11]],
        ),
        ("20 bytes, chunked", vec![chunked.clone(), chunk(&[b'x'; 20]), end.clone()]),
        (
            "20 bytes, chunked, at once",
            vec![[chunked.clone(), chunk(&[b'x'; 20]), end.clone()].concat()],
        ),
        ("60 kB", vec![head("content-length: 60000"), body.clone()]),
        ("60 kB at once", vec![[head("content-length: 60000"), body.clone()].concat()]),
        ("60 kB, chunked", vec![chunked.clone(), chunk(&body), end]),
        ("trailers", vec![chunked.clone(), chunk(b"paid"), b"0\r\nx-sum: 7\r\n\r\n".to_vec()]),
        ("a third of it", vec![head("content-length: 60000"), body[..20_000].to_vec()]),
        ("half a chunk", vec![chunked, b"ff\r\npart of it".to_vec()]),
        (
            "a body that is expected",
            vec![head("content-length: 60000\r\nexpect: 100-continue"), body],
        ),
        (
            "nothing of what is expected",
            vec![head("content-length: 60000\r\nexpect: 100-continue")],
        ),
    ];
    // What waits is given up either way.
    for finishes in [false, true] {
        let leave = |(what, pieces)| leaves_after(what, pieces, finishes);
        join_all(cases.clone().map(leave)).await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_leaves_the_line() {
    for reset in [true, false] {
        for pieces in [vec![60_000], vec![20], vec![30_000, 30_000], vec![]] {
            for whole in [true, false] {
                let server = Server::start(|layer| layer).await;
                let socket = server.connect().await.into_std().unwrap();
                let io = TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
                let (mut client, connection) =
                    http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
                lock_tests::spawn(connection);
                let (send, mut frames) = mpsc::unbounded_channel();
                for length in &pieces {
                    send.send(Bytes::from(vec![b'x'; *length])).unwrap();
                }
                // One that is not whole stays open.
                let _open = (!whole).then_some(send);
                let body = stream::poll_fn(move |cx| frames.poll_recv(cx))
                    .map(|data| Ok::<_, Infallible>(http_body::Frame::data(data)));
                let request = Request::post("http://a/orders/42/pay");
                let request = request.body(StreamBody::new(body)).unwrap();
                let call =
                    lock_tests::spawn(async move { client.send_request(request).await.map(drop) });
                server.waiting(1).await;
                sleep(ms(30)).await;
                if reset {
                    call.abort();
                } else {
                    socket.shutdown(Shutdown::Both).unwrap();
                }
                let what = format!("reset {reset}, {pieces:?}, whole {whole}");
                server.no_request_is_left(&what).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_hundred_that_leave_none_waits_and_none_runs() {
    let server = Server::start(|layer| layer).await;
    let body = vec![b'x'; 60_000];
    let clients = join_all((0..300).map(async |_| {
        let mut client = server.connect().await;
        client.write_all(&head("content-length: 60000")).await.unwrap();
        client.write_all(&body).await.unwrap();
        client
    }));
    let clients = clients.await;
    server.waiting(300).await;
    drop(clients);
    server.no_request_is_left("300 clients").await;
}

#[tokio::test]
async fn a_body_over_the_buffer_arrives_whole() {
    let server = Server::start(|layer| layer).await;
    let body: String = (0..60_000).map(|n| format!("{n:05}")).collect();
    let mut client = server.connect().await;
    let length = format!("content-length: {}\r\nexpect: 100-continue", body.len());
    client.write_all(&head(&length)).await.unwrap();
    // The server says so when the body is polled, so it is read while the request waits.
    assert_eq!(answer(&mut client, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(server.counts.handlers.load(Ordering::SeqCst), 0);
    let (mut read, mut write) = client.split();
    let send = async {
        write.write_all(body.as_bytes()).await.unwrap();
    };
    let release = async {
        server.waiting(1).await;
        sleep(ms(100)).await;
        assert_eq!(server.counts.handlers.load(Ordering::SeqCst), 0);
        server.busy.release().await.unwrap();
    };
    let receive = async {
        let mut seen = Vec::new();
        while !seen.ends_with(&body.as_bytes()[body.len() - 100..]) {
            assert_ne!(read.read_buf(&mut seen).await.unwrap(), 0, "the connection ended");
        }
        String::from_utf8(seen).unwrap()
    };
    let all = async { tokio::join!(send, release, receive) };
    let (_, _, seen) = timeout(PROMPTLY, all).await.expect("no answer");
    assert!(seen.ends_with(&format!("\r\n\r\n{body}")), "{} bytes came back", seen.len());
}

/// An upload that stalls: the end of the connection is behind all that the client has sent, which the layer reads if it is
/// told to.
#[tokio::test]
async fn a_client_that_vanishes_amid_a_large_upload_leaves_the_line() {
    for sent in [200_000, 1_000_000] {
        let server = Server::start(|layer| layer.read_ahead(2 << 20)).await;
        let mut client = server.connect().await;
        client.write_all(&head("content-length: 100000000")).await.unwrap();
        client.write_all(&vec![b'x'; sent]).await.unwrap();
        server.waiting(1).await;
        sleep(ms(100)).await;
        drop(client);
        server.no_request_is_left(&format!("{sent} bytes")).await;
    }
}

/// The second request of a connection is in the socket while the first one waits.
#[tokio::test]
async fn pipelined_requests_are_served_in_their_order() {
    let server = Server::start(|layer| layer).await;
    let mut client = server.connect().await;
    for text in ["first", "after"] {
        client.write_all(&head("content-length: 5")).await.unwrap();
        client.write_all(text.as_bytes()).await.unwrap();
    }
    server.waiting(1).await;
    server.busy.release().await.unwrap();
    let seen = answer(&mut client, "after").await;
    assert!(seen.find("first").unwrap() < seen.find("after").unwrap(), "{seen}");
    assert_eq!(server.counts.handlers.load(Ordering::SeqCst), 2);
}
