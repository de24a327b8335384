//! Two processes of a gRPC service share a device that answers one question at a time. A call that finds it busy is
//! answered at once with the status `ABORTED`, which says when to try again.
//!
//! ```sh
//! cargo run --example tonic_service
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example tonic_service    # the same through a Redis
//! ```
//!
//! The service is that of the crate `tonic-health`, so that nothing has to be generated. The key is in the message, so the
//! handler locks by itself; `Server::builder().layer(LockLayer::http()…)` locks keys that are in the metadata.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use lock_runtime::MemoryStore;
use lock_runtime::{LockClient, distributed_lock};
use lock_tower::http::status_of;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::codegen::BoxStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

type Failure = Box<dyn Error + Send + Sync>;

struct Devices {
    locks: LockClient,
}

impl Devices {
    #[distributed_lock(key = "device:{device}", wait = none, client = self.locks, map_err = status_of)]
    async fn ask(&self, device: &str) -> Result<ServingStatus, Status> {
        sleep(Duration::from_millis(600)).await;
        Ok(ServingStatus::Serving)
    }
}

#[tonic::async_trait]
impl Health for Devices {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let device = request.into_inner().service;
        let status = self.ask(&device).await?.into();
        Ok(Response::new(HealthCheckResponse { status }))
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("ask with `Check`"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (store, mut processes) = (MemoryStore::new(), JoinSet::new());
    for number in 1..=2 {
        // As two processes would have them: clients of one Redis, or of one store in memory.
        let locks = match std::env::var("REDIS_URL") {
            Ok(url) => LockClient::connect(&url).await?,
            Err(_) => LockClient::builder().memory(store.clone())?,
        };
        processes.spawn(process(number, locks));
    }
    while let Some(process) = processes.join_next().await {
        process??;
    }
    Ok(())
}

/// A server, which ends when its only caller has been answered.
async fn process(number: u32, locks: LockClient) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (address, (stop, stopped)) = (listener.local_addr()?, oneshot::channel::<()>());
    let devices = HealthServer::new(Devices { locks: locks.clone() });
    let server = Server::builder()
        .add_service(devices)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), async { drop(stopped.await) });
    let server = tokio::spawn(server);
    call(number, address).await?;
    drop(stop);
    server.await??;
    locks.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Asks a server about the printer, and asks again after the time that a refusal names.
async fn call(number: u32, server: SocketAddr) -> Result<(), Failure> {
    let server = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
    let mut health = HealthClient::new(server);
    loop {
        let refused = match health.check(HealthCheckRequest { service: "printer".into() }).await {
            Ok(answer) => {
                println!("server {number}: the printer is {:?}", answer.into_inner().status());
                return Ok(());
            }
            Err(status) if status.code() == Code::Aborted => status,
            Err(status) => return Err(status.into()),
        };
        let after = refused.metadata().get("grpc-retry-pushback-ms").ok_or("it names no time")?;
        let (code, message, after) = (refused.code(), refused.message(), after.to_str()?.parse()?);
        println!("server {number}: {code:?}, `{message}`, again in {after} ms");
        sleep(Duration::from_millis(after)).await;
    }
}
