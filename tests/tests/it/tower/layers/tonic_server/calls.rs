//! Unary calls.

use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;

use super::{HOSTS, Host, ORDER, Orders, about, connect, connect_without_timer, layer, two_of};
use crate::tower::prelude::*;

type With = fn(HttpLockLayerBuilder) -> HttpLockLayerBuilder;

const BRIEF: Duration = ms(100);

#[tokio::test]
async fn refusals_are_statuses() {
    let server = RedisServer::start().await;
    let (locks, peer) = two_of(&server).await;
    let orders = Orders::default();
    let other = peer.mutex(ORDER).lock().await.unwrap();
    let secrets = [ORDER, "jane", &other.token().to_string()];
    let cases: [(With, Code); 5] = [
        (|layer| layer, Code::Aborted),
        (|layer| layer.busy(StatusCode::LOCKED), Code::FailedPrecondition),
        (|layer| layer.busy(StatusCode::TOO_MANY_REQUESTS), Code::ResourceExhausted),
        (|layer| layer.busy(StatusCode::SERVICE_UNAVAILABLE), Code::Unavailable),
        (|layer| layer.wait(Wait::UpTo(BRIEF)), Code::Unavailable),
    ];
    for host in HOSTS {
        for (with, code) in cases {
            let layer = with(layer(&locks)).build().unwrap();
            let mut client = connect(host.serve(layer, &orders).await).await;
            for status in [
                client.check(about("")).await.unwrap_err(),
                client.watch(about("")).await.unwrap_err(),
            ] {
                assert_eq!(status.code(), code, "{host:?}: {status:?}");
                let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap();
                let millis: u64 = pushback.to_str().unwrap().parse().unwrap();
                assert!(millis >= 1000, "{millis}");
                let told = format!("{status:?}");
                assert!(secrets.iter().all(|secret| !told.contains(secret)), "{told}");
            }
            let keyless = Request::new(HealthCheckRequest::default());
            let status = client.check(keyless).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            assert!(!status.metadata().contains_key("grpc-retry-pushback-ms"));
        }
    }
    assert_eq!(orders.calls.count(), 0);
}

/// From the layer. A tonic server has a timer of its own around it, which says `CANCELLED`, as does the
/// one of tonic's channel; whoever is first, the place in line is given up.
#[tokio::test]
async fn a_deadline_ends_the_wait() {
    let server = RedisServer::start().await;
    let (locks, peer) = two_of(&server).await;
    let orders = Orders::default();
    let other = peer.mutex(ORDER).lock().await.unwrap();
    for host in HOSTS {
        let layer = layer(&locks).wait(Wait::Forever).build().unwrap();
        let address = host.serve(layer, &orders).await;
        let request = || {
            let mut request = about("");
            request.set_timeout(BRIEF);
            request
        };
        let (mut with_timer, mut without) =
            (connect(address).await, connect_without_timer(address));
        let status =
            timeout(PROMPTLY, without.check(request())).await.expect("a hang").unwrap_err();
        let expected: &[Code] = match host {
            Host::Axum => &[Code::DeadlineExceeded],
            Host::Tonic => &[Code::DeadlineExceeded, Code::Cancelled],
        };
        assert!(expected.contains(&status.code()), "{host:?}: {status:?}");
        let status =
            timeout(PROMPTLY, with_timer.check(request())).await.expect("a hang").unwrap_err();
        let either = [Code::DeadlineExceeded, Code::Cancelled];
        assert!(either.contains(&status.code()), "{host:?}: {status:?}");
    }
    other.release().await.unwrap();
    // No call was left in line to take it.
    assert!(peer.mutex(ORDER).try_lock().await.unwrap().is_some());
    assert_eq!(orders.calls.count(), 0);
}

#[tokio::test]
async fn a_sequential_client_never_meets_itself() {
    let server = RedisServer::start().await;
    let (locks, _proxy) = from_afar(&server).await;
    let orders = Orders::default();
    for (host, hold) in [
        (Host::Tonic, HoldUntil::Auto),
        (Host::Axum, HoldUntil::Auto),
        (Host::Tonic, HoldUntil::Body),
    ] {
        let layer = layer(&locks).hold(hold).build().unwrap();
        let mut client = connect(host.serve(layer, &orders).await).await;
        for turn in 0..50 {
            let answer = client.check(about("")).await;
            assert!(answer.is_ok(), "{host:?} {hold:?} {turn}: {answer:?}");
            assert!(!server.client().exists(ORDER).await, "{host:?} {hold:?} {turn}");
        }
    }
    assert_eq!(orders.calls.count(), 150);
}

/// The answer is trailers only: there is no body that could hold anything.
#[tokio::test]
async fn a_handler_that_fails_has_let_go() {
    let server = RedisServer::start().await;
    let (locks, _proxy) = from_afar(&server).await;
    let orders = Orders::default();
    for host in HOSTS {
        for hold in [HoldUntil::Auto, HoldUntil::Body] {
            let layer = layer(&locks).hold(hold).build().unwrap();
            let mut client = connect(host.serve(layer, &orders).await).await;
            for _ in 0..5 {
                let status = client.check(about("unknown")).await.unwrap_err();
                assert_eq!((status.code(), status.message()), (Code::NotFound, "no such order"));
                assert!(!server.client().exists(ORDER).await, "{host:?} {hold:?}");
            }
        }
    }
}
