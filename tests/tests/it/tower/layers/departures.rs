//! Clients that leave while their request waits for its lock, over real connections.

use std::net::Shutdown;

use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::tower::layers::connection;
use crate::tower::prelude::*;

/// How long a departed client may keep its place here. The layer promises 100 ms; a machine that builds
/// other things meanwhile is given more. A place that is kept is kept until the lock is free.
const LEFT: Duration = secs(2);

/// What a server and its handlers count.
#[derive(Debug, Clone, Default)]
struct Counts {
    requests: Arc<AtomicUsize>,
    handlers: Calls,
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
    counts.handlers.add();
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
        let app = Router::new()
            .route("/orders/{id}/pay", post(pay).layer(DefaultBodyLimit::max(4 << 20)))
            .route_layer(adapt(routed_layer(&locks)).build().unwrap())
            .layer(from_fn_with_state(counts.clone(), count))
            .with_state(counts.clone());
        Self { address: connection::serve(app).await, counts, busy }
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
        let gone = format!("{what}: a client keeps its place");
        eventually(LEFT, &gone, async || self.requests() == 0).await;
        self.busy.release().await.unwrap();
        // Another request is served, and it is the only one.
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(&head("content-length: 4")).await.unwrap();
        client.write_all(b"paid").await.unwrap();
        assert!(answer(&mut client, "paid").await.starts_with("HTTP/1.1 200"), "{what}");
        let ran = self.counts.handlers.count();
        assert_eq!(ran, 1, "{what}: a departed client's handler ran");
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
    let (twenty, end) = (vec![b'x'; 20], b"0\r\n\r\n".to_vec());
    let sized = |length: usize| head(&format!("content-length: {length}"));
    let expected = head("content-length: 60000\r\nexpect: 100-continue");
    let cases = [
        ("no body", vec![sized(0)]),
        ("20 bytes", vec![sized(20), twenty.clone()]),
        ("20 bytes in two packets", vec![sized(20), vec![b'x'; 9], vec![b'x'; 11]]),
        ("20 bytes, chunked", vec![chunked.clone(), chunk(&twenty), end.clone()]),
        ("20 bytes, chunked, at once", vec![[&chunked[..], &chunk(&twenty), &end].concat()]),
        ("60 kB", vec![sized(60_000), body.clone()]),
        ("60 kB at once", vec![[sized(60_000), body.clone()].concat()]),
        ("60 kB, chunked", vec![chunked.clone(), chunk(&body), end]),
        ("trailers", vec![chunked.clone(), chunk(b"paid"), b"0\r\nx-sum: 7\r\n\r\n".to_vec()]),
        ("a third of it", vec![sized(60_000), body[..20_000].to_vec()]),
        ("half a chunk", vec![chunked, b"ff\r\npart of it".to_vec()]),
        ("a body that is expected", vec![expected.clone(), body]),
        ("nothing of what is expected", vec![expected]),
    ];
    // What waits is given up either way.
    for finishes in [false, true] {
        let leave = |(what, pieces)| leaves_after(what, pieces, finishes);
        join_all(cases.clone().map(leave)).await;
    }
}

/// A stream of HTTP/2 that is reset, or whose connection ends.
async fn stream_ends(reset: bool, pieces: &[usize], whole: bool) {
    let server = Server::start(|layer| layer).await;
    let socket = server.connect().await.into_std().unwrap();
    let io = TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    lock_tests::spawn(connection);
    let data = pieces.iter().map(|length| Ok::<_, Infallible>(Bytes::from(vec![b'x'; *length])));
    let data = stream::iter(data.collect::<Vec<_>>());
    // One that is not whole stays open.
    let body = if whole { data.boxed() } else { data.chain(stream::pending()).boxed() };
    let request = Request::post("http://a/orders/42/pay");
    let request = request.body(StreamBody::new(body.map(|it| it.map(Frame::data)))).unwrap();
    let call = lock_tests::spawn(async move { client.send_request(request).await.map(drop) });
    server.waiting(1).await;
    sleep(ms(30)).await;
    if reset {
        call.abort();
    } else {
        socket.shutdown(Shutdown::Both).unwrap();
    }
    server.no_request_is_left(&format!("reset {reset}, {pieces:?}, whole {whole}")).await;
}

#[tokio::test]
async fn a_stream_that_ends_leaves_the_line() {
    for pieces in [&[60_000][..], &[20], &[30_000, 30_000], &[]] {
        for (reset, whole) in [(true, true), (true, false), (false, true), (false, false)] {
            stream_ends(reset, pieces, whole).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_hundred_that_leave_none_waits_and_none_runs() {
    let server = Server::start(|layer| layer).await;
    let clients = join_all((0..300).map(async |_| {
        let mut client = server.connect().await;
        client.write_all(&head("content-length: 60000")).await.unwrap();
        client.write_all(&[b'x'; 60_000]).await.unwrap();
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
    let (mut read, mut write) = client.split();
    let release = async {
        server.waiting(1).await;
        sleep(ms(100)).await;
        assert_eq!(server.counts.handlers.count(), 0);
        server.busy.release().await.unwrap();
    };
    let receive = async {
        let mut seen = Vec::new();
        while !seen.ends_with(&body.as_bytes()[body.len() - 100..]) {
            assert_ne!(read.read_buf(&mut seen).await.unwrap(), 0, "the connection ended");
        }
        String::from_utf8(seen).unwrap()
    };
    let all = async { tokio::join!(write.write_all(body.as_bytes()), release, receive) };
    let (_, (), seen) = timeout(PROMPTLY, all).await.expect("no answer");
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
    assert_eq!(server.counts.handlers.count(), 2);
}
