//! What gRPC clients are told: trailers only, in place of problem details.

use http_body::Body;

use crate::tower::prelude::*;

fn call() -> Request<TestBody> {
    let request = Request::post("/orders/42/pay").header("content-type", "application/grpc+proto");
    request.body(TestBody::default()).unwrap()
}

/// The status and message, which are all that there is.
async fn refused(layer: HttpLockLayerBuilder) -> (u8, String) {
    let service = layer.build().unwrap().layer(Calls::default().service());
    told(service.oneshot(call()).await.unwrap())
}

fn told<B: Body>(response: Response<B>) -> (u8, String) {
    let headers = response.headers();
    let header = |name: &str| headers[name].to_str().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(header("content-type"), "application/grpc");
    assert!(response.body().is_end_stream(), "the headers are the trailers");
    let code = header("grpc-status").parse().unwrap();
    // Where it can come back as it is, it is told when.
    assert_eq!(headers.contains_key("grpc-retry-pushback-ms"), [4, 8, 9, 10, 14].contains(&code));
    (code, header("grpc-message").to_owned())
}

#[tokio::test(start_paused = true)]
async fn refusals_have_codes() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex("order:42").lock().await.unwrap();
    let busy = |status| order_layer(&locks).wait(Wait::None).busy(status);
    let wait = Wait::UpTo(secs(1));
    let failing = Moody::new(MemoryStore::new(), Mood::Failing(StoreErrorKind::Unavailable));
    let failing = LockClient::builder().store(failing).unwrap();
    let no_key = LockLayer::http().client(locks.clone()).key("{header.x-\u{74}enant}");
    for (layer, code, message) in [
        (busy(StatusCode::CONFLICT), 10, "Another request holds this resource"),
        (busy(StatusCode::LOCKED), 9, "Another request holds this resource"),
        (busy(StatusCode::TOO_MANY_REQUESTS), 8, "Another request holds this resource"),
        (busy(StatusCode::SERVICE_UNAVAILABLE), 14, "Another request holds this resource"),
        (order_layer(&locks).wait(wait), 14, "Other requests held this resource for too long"),
        (order_layer(&failing), 14, "Locks are not available at the moment"),
        (no_key, 3, "the request has no header `x-tenant`"),
        (LockLayer::http().key("nightly"), 13, "The server cannot lock this resource"),
    ] {
        assert_eq!(refused(layer).await, (code, message.to_owned()));
    }
    let lease = ms(300);
    let layer =
        LockLayer::http().key("a").client(locks).options(waits_and_holds(Wait::None, lease));
    let service = layer.build().unwrap().layer(service_fn(|_: Request<TestBody>| async {
        sleep(secs(60)).await;
        Ok::<_, std::convert::Infallible>(Response::new(TestBody::default()))
    }));
    let (code, message) = told(service.oneshot(call()).await.unwrap());
    assert_eq!((code, &message[..30]), (13, "The request lost its hold on t"));
}
