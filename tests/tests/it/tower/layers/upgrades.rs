//! Connections that go on as something else: a real 101, and bytes both ways.

use std::future::IntoFuture;

use axum::routing::get;
use http_body_util::Empty;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use crate::tower::prelude::*;

type NoChunk = Result<Bytes, Infallible>;

const ROOM: &str = "room:42";

/// Says back what it is told, for as long as it is told anything.
async fn echo(upgraded: Upgraded) -> std::io::Result<()> {
    let mut io = TokioIo::new(upgraded);
    let mut said = [0; 64];
    loop {
        match io.read(&mut said).await? {
            0 => return Ok(()),
            length => io.write_all(&said[..length]).await?,
        }
    }
}

/// Answers with 101 and has a task go on. `open` counts those that do.
async fn switch(request: Request<Body>, open: watch::Sender<usize>) -> Response<Body> {
    let has_body = *open.borrow() % 2 == 1;
    assert!(HeldLock::current().is_some_and(|held| !held.is_lost()));
    lock_tests::spawn(async move {
        let upgraded = hyper::upgrade::on(request).await.unwrap();
        open.send_modify(|open| *open += 1);
        let _hung_up = echo(upgraded).await;
        open.send_modify(|open| *open -= 1);
    });
    // A proxy's may have a body, which no client sends.
    let body =
        if has_body { Body::from_stream(stream::pending::<NoChunk>()) } else { Body::empty() };
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(body)
        .unwrap()
}

async fn serve(layer: HttpLockLayer, open: watch::Sender<usize>) -> SocketAddr {
    let app = Router::new()
        .route("/rooms/{id}", get(move |request| switch(request, open.clone())))
        .route_layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    lock_tests::spawn(axum::serve(listener, app).into_future());
    address
}

/// A connection of its own, and what became of it.
async fn upgrade(address: SocketAddr) -> Response<hyper::body::Incoming> {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    lock_tests::spawn(connection.with_upgrades());
    let request = Request::get("/rooms/42")
        .header("host", "a")
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(Empty::<Bytes>::new());
    timeout(PROMPTLY, client.send_request(request.unwrap())).await.expect("a hang").unwrap()
}

/// Says it and waits for it to be said back.
async fn said_back(io: &mut TokioIo<Upgraded>, text: &str) {
    let mut back = vec![0; text.len()];
    let talk = async {
        io.write_all(text.as_bytes()).await.unwrap();
        io.read_exact(&mut back).await.unwrap();
    };
    timeout(PROMPTLY, talk).await.expect("no echo");
    assert_eq!(back, text.as_bytes());
}

/// The handler had the lock; the connection, which may live for days, has not.
#[tokio::test]
async fn the_lock_is_let_go_of_with_the_101() {
    let server = RedisServer::start().await;
    let (locks, _proxy) = from_afar(&server).await;
    for hold in [HoldUntil::Auto, HoldUntil::Body, HoldUntil::Response] {
        let layer = LockLayer::http().key("room:{path.id}").client(locks.clone());
        let layer =
            layer.wait(Wait::None).methods([Method::GET]).hold(hold).release_timeout(PROMPTLY);
        let layer = layer.build().unwrap();
        let open = watch::Sender::new(0);
        let address = serve(layer, open.clone()).await;
        let mut connections = Vec::new();
        // Each of them finds the lock free, which those before it would hold.
        for _ in 0..3 {
            let answer = upgrade(address).await;
            assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS, "{hold:?}");
            assert!(!server.client().exists(ROOM).await, "{hold:?}");
            let mut io = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
            said_back(&mut io, "hello").await;
            connections.push(io);
        }
        for (number, io) in connections.iter_mut().enumerate() {
            for text in ["one", "two", &number.to_string()] {
                said_back(io, text).await;
            }
        }
        assert_eq!(*open.borrow(), 3, "{hold:?}");
        // Another task's hold is nothing to them, and ends none of them.
        let other = locks.mutex(ROOM).lock().await.unwrap();
        assert_eq!(upgrade(address).await.status(), StatusCode::CONFLICT);
        said_back(&mut connections[0], "still here").await;
        other.release().await.unwrap();
        drop(connections);
        soon!("all have hung up", *open.borrow() == 0);
    }
}
