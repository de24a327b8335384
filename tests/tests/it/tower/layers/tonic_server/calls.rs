//! Unary calls.

use tonic::Code;

use super::{HOSTS, Host, Orders, about, client, connect_without_timer, layer};
use crate::tower::layers::tonic_server::ORDER;
use crate::tower::prelude::*;

const BRIEF: Duration = ms(100);

/// From the layer. A tonic server has a timer of its own around it, which says `CANCELLED`, as does the
/// one of tonic's channel; whichever is first, the place in line is given up.
#[tokio::test]
async fn a_deadline_ends_the_wait() {
    let (_server, locks, peer) = world_of_two().await;
    let orders = Orders::default();
    let other = peer.mutex(ORDER).lock().await.unwrap();
    let request = || {
        let mut request = about("");
        request.set_timeout(BRIEF);
        request
    };
    let either = &[Code::DeadlineExceeded, Code::Cancelled];
    for (host, expected) in [(Host::Axum, &either[..1]), (Host::Tonic, either)] {
        let address = host.serve(layer(&locks).wait(Wait::Forever), &orders).await;
        let (mut with_timer, mut without) = (client(address).await, connect_without_timer(address));
        let status = timeout(PROMPTLY, without.check(request())).await.expect("a hang");
        let code = status.unwrap_err().code();
        assert!(expected.contains(&code), "{host:?}: {code:?}");
        let status = timeout(PROMPTLY, with_timer.check(request())).await.expect("a hang");
        let code = status.unwrap_err().code();
        assert!(either.contains(&code), "{host:?}: {code:?}");
    }
    other.release().await.unwrap();
    is_free(&peer, ORDER, "a call was left in line to take it").await;
    assert_eq!(orders.calls.count(), 0);
}

/// Nor does one whose calls fail: that answer is trailers only, and there is no body that could hold anything.
#[tokio::test]
async fn a_sequential_client_never_meets_itself() {
    let server = RedisServer::start().await;
    let (locks, _proxy) = from_afar(&server).await;
    let orders = Orders::default();
    for host in HOSTS {
        for hold in [HoldUntil::Auto, HoldUntil::Body] {
            let mut client = client(host.serve(layer(&locks).hold(hold), &orders).await).await;
            for turn in 0..40 {
                let fails = turn % 4 == 3;
                let answer = client.check(about(if fails { "unknown" } else { "" })).await;
                match answer {
                    Ok(_) => assert!(!fails),
                    Err(status) => {
                        assert_eq!((status.code(), fails), (Code::NotFound, true), "{status:?}");
                        assert_eq!(status.message(), "no such order");
                    }
                }
                assert!(!server.client().exists(ORDER).await, "{host:?} {hold:?} {turn}");
            }
        }
    }
    assert_eq!(orders.calls.count(), 120);
}
