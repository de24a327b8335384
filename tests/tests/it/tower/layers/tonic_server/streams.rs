//! Server-streaming calls.

use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckResponse;

use super::{HOSTS, Item, Orders, about, client, layer};
use crate::tower::layers::tonic_server::ORDER;
use crate::tower::prelude::*;

type Answers = Streaming<HealthCheckResponse>;

fn message(status: i32) -> Item {
    Ok(HealthCheckResponse { status })
}

/// The number in the next message.
async fn next(stream: &mut Answers) -> Result<Option<i32>, Status> {
    let message = timeout(PROMPTLY, stream.message()).await.expect("the stream says nothing")?;
    Ok(message.map(|message| message.status))
}

/// A stream that has sent one message, and what sends the next.
macro_rules! begun {
    ($orders:ident, $client:ident) => {{
        let sender = $orders.next_stream();
        sender.send(message(0)).unwrap();
        let mut stream = $client.watch(about("")).await.unwrap().into_inner();
        assert_eq!(next(&mut stream).await.unwrap(), Some(0));
        (sender, stream)
    }};
}

#[tokio::test]
async fn a_stream_holds_the_lock_to_its_end() {
    let server = RedisServer::start().await;
    let (locks, _proxy) = from_afar(&server).await;
    let orders = Orders::default();
    for host in HOSTS {
        let address = host.serve(layer(&locks), &orders).await;
        let (mut first, mut second) = (client(address).await, client(address).await);
        // One after the other: the end comes after the release.
        for end in [None, Some(Status::data_loss("no more")), None] {
            let (sender, mut stream) = begun!(orders, first);
            for number in 1..4 {
                sender.send(message(number)).unwrap();
                assert_eq!(next(&mut stream).await.unwrap(), Some(number));
                let refused = second.check(about("")).await.unwrap_err();
                assert_eq!(refused.code(), Code::Aborted, "{host:?}: {refused:?}");
            }
            match end {
                None => {
                    drop(sender);
                    assert_eq!(next(&mut stream).await.unwrap(), None);
                }
                Some(status) => {
                    sender.send(Err(status)).unwrap();
                    assert_eq!(next(&mut stream).await.unwrap_err().code(), Code::DataLoss);
                }
            }
            assert!(!server.client().exists(ORDER).await, "{host:?}");
        }
    }
}

#[tokio::test]
async fn a_client_that_drops_the_stream_frees_the_lock() {
    let (server, locks) = world().await;
    let orders = Orders::default();
    for host in HOSTS {
        let mut client = client(host.serve(layer(&locks), &orders).await).await;
        let (sender, stream) = begun!(orders, client);
        assert!(server.client().exists(ORDER).await);
        // The stream is reset; the connection stays.
        drop(stream);
        soon!("it is free", !server.client().exists(ORDER).await);
        assert!(sender.is_closed(), "{host:?}: the handler's stream is gone before (S-13)");
        client.check(about("")).await.unwrap();
    }
}

/// S-12. What the client has so far must not look like all.
#[tokio::test]
async fn a_lease_lost_on_the_way_is_an_error() {
    let (server, locks) = world().await;
    let orders = Orders::default();
    for host in HOSTS {
        let layer = layer(&locks).options(watched(ms(600)).wait(Wait::None));
        let mut client = client(host.serve(layer, &orders).await).await;
        let (sender, mut stream) = begun!(orders, client);
        assert!(server.client().del(ORDER).await);
        let lost = next(&mut stream).await.unwrap_err();
        assert_eq!(lost.code(), Code::Internal, "{host:?}: {lost:?}");
        assert!(!format!("{lost:?}").contains("jane"), "{lost:?}");
        assert!(sender.is_closed(), "{host:?}: it ran on");
    }
}
