//! A tonic service on a real port under the layer, in tonic's own server and in axum's, and a tonic
//! client of it.

use futures_util::stream::Stream;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::tower::layers::connection::serve;
use crate::tower::prelude::*;

mod calls;
mod codes;
mod streams;

/// What the layer locks: a name that must not show in any answer.
const ORDER: &str = "order:jane";

/// What goes out in a stream; the end of the channel is the stream's.
type Item = Result<HealthCheckResponse, Status>;

/// A service of which the name that is asked for says what it does.
#[derive(Clone, Default)]
struct Orders {
    calls: Calls,
    /// Of the next `Watch`.
    items: Arc<Mutex<Option<mpsc::UnboundedReceiver<Item>>>>,
}

impl Orders {
    /// What the next `Watch` sends.
    fn next_stream(&self) -> mpsc::UnboundedSender<Item> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.items.lock().unwrap() = Some(receiver);
        sender
    }
}

#[tonic::async_trait]
impl Health for Orders {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if request.get_ref().service == "unknown" {
            return Err(Status::not_found("no such order"));
        }
        self.calls.add();
        Ok(Response::new(HealthCheckResponse::default()))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Item> + Send>>;

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let items = self.items.lock().unwrap().take();
        let items = items.ok_or_else(|| Status::not_found("no stream"))?;
        let items = stream::unfold(items, async |mut items| Some((items.recv().await?, items)));
        Ok(Response::new(items.boxed()))
    }
}

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Tonic,
    Axum,
}

const HOSTS: [Host; 2] = [Host::Tonic, Host::Axum];

impl Host {
    async fn serve(self, layer: HttpLockLayerBuilder, orders: &Orders) -> SocketAddr {
        let (layer, service) = (layer.build().unwrap(), HealthServer::new(orders.clone()));
        match self {
            Self::Tonic => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let server = Server::builder().layer(layer).add_service(service);
                lock_tests::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
                address
            }
            Self::Axum => serve(Routes::new(service).into_axum_router().layer(layer)).await,
        }
    }
}

fn layer(locks: &LockClient) -> HttpLockLayerBuilder {
    let layer = LockLayer::http().key("order:{header.x-order}").client(locks.clone());
    layer.wait(Wait::None).release_timeout(PROMPTLY)
}

async fn client(address: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.timeout(PROMPTLY).connect().await.unwrap())
}

/// Without the timer of tonic's channel, which says of a deadline that the call was cancelled.
fn connect_without_timer(
    address: SocketAddr,
) -> HealthClient<legacy::Client<HttpConnector, tonic::body::Body>> {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    let origin = format!("http://{address}").parse().unwrap();
    HealthClient::with_origin(builder.http2_only(true).build_http(), origin)
}

/// A request for that name, about Jane's order.
fn about(service: &str) -> Request<HealthCheckRequest> {
    let mut request = Request::new(HealthCheckRequest { service: service.to_owned() });
    request.metadata_mut().insert("x-order", "jane".parse().unwrap());
    request
}
