//! One connection to a server, of one version of HTTP or the other, and what comes over it.

use std::net::Shutdown;

use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::tower::prelude::*;

/// Serves on a port of its own, until the runtime ends.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    lock_tests::spawn(axum::serve(listener, app).into_future());
    address
}

/// A request for that path.
pub(crate) fn asks(path: &str) -> Request<Empty<Bytes>> {
    let uri = format!("http://a{path}");
    Request::post(uri).header("host", "a").body(Empty::new()).unwrap()
}

/// One connection.
pub(crate) struct Client {
    sender: Sender,
    /// The socket, by another handle.
    socket: std::net::TcpStream,
}

enum Sender {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, version: u8) -> Self {
        let socket = std::net::TcpStream::connect(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let io = TokioIo::new(TcpStream::from_std(socket.try_clone().unwrap()).unwrap());
        let sender = if version == 1 {
            let (client, connection) = http1::handshake(io).await.unwrap();
            lock_tests::spawn(connection);
            Sender::One(client)
        } else {
            let (client, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            lock_tests::spawn(connection);
            Sender::Two(client)
        };
        Self { sender, socket }
    }

    /// Closes the connection under whatever is still on its way, as the end of a process does.
    pub(crate) fn hang_up(&self) -> impl FnOnce() + use<> {
        let socket = self.socket.try_clone().unwrap();
        move || socket.shutdown(Shutdown::Both).unwrap()
    }

    /// The answer to one more request, or how the connection broke.
    pub(crate) async fn try_send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let sent = async {
            match &mut self.sender {
                Sender::One(client) => {
                    client.ready().await?;
                    client.send_request(request).await
                }
                Sender::Two(client) => client.send_request(request).await,
            }
        };
        timeout(PROMPTLY, sent).await.expect("no answer")
    }

    pub(crate) async fn send(&mut self, request: Request<Empty<Bytes>>) -> Response<Incoming> {
        self.try_send(request).await.unwrap()
    }
}

/// The next that says anything: HTTP/2 ends with data that is empty.
pub(crate) async fn frame(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        let frame = timeout(PROMPTLY, body.frame()).await.expect("the body says nothing");
        match frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default())) {
            Some(Ok(data)) if data.is_empty() => {}
            frame => return frame,
        }
    }
}
