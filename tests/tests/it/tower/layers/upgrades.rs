//! Connections that go on as something else: a real 101, and bytes both ways.

use axum::routing::get;
use http_body_util::Empty;
use hyper::upgrade::{Upgraded, on};
use hyper_util::rt::TokioIo;

use crate::tower::layers::connection;
use crate::tower::prelude::*;

const ROOM: &str = "room:42";

/// Answers with 101 and has a task go on, which says back what it is told. `open` counts those that do.
async fn switch(request: Request<Body>, open: watch::Sender<usize>) -> Response<Body> {
    let has_body = *open.borrow() % 2 == 1;
    assert!(HeldLock::current().is_some_and(|held| !held.is_lost()));
    lock_tests::spawn(async move {
        let mut io = TokioIo::new(on(request).await.unwrap());
        open.send_modify(|open| *open += 1);
        let mut said = [0; 64];
        while let Ok(length @ 1..) = io.read(&mut said).await {
            io.write_all(&said[..length]).await.unwrap();
        }
        open.send_modify(|open| *open -= 1);
    });
    // A proxy's may have a body, which no client sends.
    let endless = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(if has_body { endless() } else { Body::empty() })
        .unwrap()
}

/// A connection of its own, and what became of it.
async fn upgrade(address: SocketAddr) -> Response<hyper::body::Incoming> {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    lock_tests::spawn(connection.with_upgrades());
    let request = Request::get("/rooms/42").header("host", "a").header("connection", "upgrade");
    let request = request.header("upgrade", "echo").body(Empty::<Bytes>::new()).unwrap();
    timeout(PROMPTLY, client.send_request(request)).await.expect("a hang").unwrap()
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
        let layer = LockLayer::http().key("room:{path.id}").client(locks.clone()).hold(hold);
        let layer = layer.wait(Wait::None).methods([Method::GET]).release_timeout(PROMPTLY);
        let open = watch::Sender::new(0);
        let counts = open.clone();
        let app = Router::new()
            .route("/rooms/{id}", get(move |request| switch(request, counts.clone())))
            .route_layer(layer.build().unwrap());
        let address = connection::serve(app).await;
        let mut connections = Vec::new();
        // Each of them finds the lock free, which those before it would hold.
        for _ in 0..3 {
            let answer = upgrade(address).await;
            assert_eq!(answer.status(), 101, "{hold:?}");
            assert!(!server.client().exists(ROOM).await, "{hold:?}");
            let mut io = TokioIo::new(on(answer).await.unwrap());
            said_back(&mut io, "hello").await;
            connections.push(io);
        }
        assert_eq!(*open.borrow(), 3, "{hold:?}");
        // Another task's hold is nothing to them, and ends none of them.
        let other = locks.mutex(ROOM).lock().await.unwrap();
        assert_eq!(upgrade(address).await.status(), 409);
        for (number, io) in connections.iter_mut().enumerate() {
            said_back(io, &format!("still here: {number}")).await;
        }
        other.release().await.unwrap();
        drop(connections);
        soon!("all have hung up", *open.borrow() == 0);
    }
}
