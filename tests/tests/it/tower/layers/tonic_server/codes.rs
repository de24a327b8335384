//! What gRPC clients are told: trailers only, in place of problem details. The layer's answers, a refusal as a status, and an
//! error as a status are one table.

use http::request::Parts;
use http_body::Body;
use lock_tower::http::{LockResponse, status_of};
use tonic::{Code, Status};

use crate::tower::prelude::*;

const SECOND: Duration = secs(1);

fn call() -> Request<TestBody> {
    let request = Request::post("/orders/42/pay").header("content-type", "application/grpc");
    request.body(TestBody::default()).unwrap()
}

fn said(status: &Status) -> (Code, &str, bool) {
    let pushback = status.metadata().contains_key("grpc-retry-pushback-ms");
    (status.code(), status.message(), pushback)
}

/// The status of an answer that is trailers only.
fn status<B: Body>(response: &Response<B>) -> Status {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    assert!(response.body().is_end_stream(), "the headers are the trailers");
    let status = Status::from_header_map(response.headers()).expect("trailers only");
    // Where it can come back as it is, it is told when.
    let comes_back = [
        Code::DeadlineExceeded,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::Unavailable,
    ];
    assert_eq!(said(&status).2, comes_back.contains(&status.code()), "{status:?}");
    status
}

async fn told(layer: HttpLockLayerBuilder) -> Status {
    let service = layer.build().unwrap().layer(Calls::default().service());
    status(&service.oneshot(call()).await.unwrap())
}

/// Also what needs to be encoded on its way.
#[tokio::test(start_paused = true)]
async fn a_refusal_as_a_status_is_what_the_layer_answers() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex("order:42").lock().await.unwrap();
    let failing = Troubled::refusing(StoreErrorKind::Unavailable);
    let failing = LockClient::builder().store(failing).unwrap();
    let busy = |status| order_layer(&locks).wait(Wait::None).busy(status);
    let keyless = LockLayer::http().client(locks.clone()).key("{header.x-tenant}");
    let (held, late) = ("Another request holds", "Other requests held this resource for too long");
    for (layer, code, says) in [
        (busy(StatusCode::CONFLICT), Code::Aborted, held),
        (busy(StatusCode::LOCKED), Code::FailedPrecondition, held),
        (busy(StatusCode::TOO_MANY_REQUESTS), Code::ResourceExhausted, held),
        (busy(StatusCode::SERVICE_UNAVAILABLE), Code::Unavailable, held),
        (order_layer(&locks).wait(Wait::UpTo(SECOND)), Code::Unavailable, late),
        (order_layer(&failing), Code::Unavailable, "Locks are not available at the moment"),
        (keyless, Code::InvalidArgument, "the request has no header `x-tenant`"),
        (LockLayer::http().key("nightly"), Code::Internal, "The server cannot lock this resource"),
    ] {
        let tonics = layer
            .clone()
            .responder(|refusal: LockResponse, _: &Parts| Status::from(&refusal).into_http());
        let (ours, tonics) = (told(layer).await, told(tonics).await);
        assert_eq!(said(&ours), said(&tonics));
        assert!(ours.code() == code && ours.message().starts_with(says), "{code}: {ours:?}");
    }
    // For the same refusal, to the millisecond.
    let layer = busy(StatusCode::CONFLICT).responder(|refusal: LockResponse, _: &Parts| {
        let tonics: Response<bytes::Bytes> = Status::from(&refusal).into_http();
        let ours = refusal.into_http();
        let header = "grpc-retry-pushback-ms";
        assert_eq!(ours.headers()[header], tonics.headers()[header]);
        tonics
    });
    assert_eq!(told(layer).await.code(), Code::Aborted);
}

#[distributed_lock(key = "order:{id}")]
async fn unscoped(id: u64) -> Result<(), LockError> {
    Ok(())
}

/// The errors of real locks, each beside what the layer says of the same.
#[tokio::test(start_paused = true)]
async fn an_error_as_a_status_is_what_the_layer_answers() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex("order:42").lock().await.unwrap();
    let failing = Troubled::refusing(StoreErrorKind::Unavailable);
    let failing = LockClient::builder().store(failing).unwrap();
    let lease = waits_and_holds(Wait::None, ms(300));
    let lost = locks.mutex("a").with(lease.clone()).lock().await.unwrap();
    let sleeper = service_fn(|_: Request<TestBody>| async {
        tokio::time::sleep(60 * SECOND).await;
        Ok::<_, std::convert::Infallible>(Response::new(TestBody::default()))
    });
    let lost = lost.run(tokio::time::sleep(60 * SECOND)).await.unwrap_err();
    let layer = LockLayer::http().key("b").client(locks.clone()).options(lease).build().unwrap();
    let cut_off = layer.layer(sleeper).oneshot(call()).await.unwrap();
    let cut_off = status(&cut_off);
    assert_eq!(cut_off.code(), Code::Internal, "{cut_off:?}");
    assert!(cut_off.message().starts_with("The request lost its hold"), "{cut_off:?}");

    let once = order_layer(&locks).wait(Wait::None);
    let patient = order_layer(&locks).wait(Wait::UpTo(SECOND));
    let wait = crate::tower::layers::world::options(Wait::UpTo(SECOND));
    let never = crate::tower::layers::world::options(Wait::None);
    let closed = LockClient::in_memory();
    closed.shutdown(SECOND).await;
    let long = "k".repeat(1000);
    let too_long = LockLayer::http().client(locks.clone()).key_fn(|_| {
        let key = LockKey::builder().text(&"k".repeat(1000)).build()?;
        Ok(Some(key))
    });
    let mutex = locks.mutex("order:42");
    for (error, by_layer) in [
        (mutex.clone().with(never).lock().await.unwrap_err(), told(once).await),
        (mutex.with(wait).lock().await.unwrap_err(), told(patient).await),
        (failing.mutex("a").lock().await.unwrap_err(), told(order_layer(&failing)).await),
        (closed.mutex("a").lock().await.unwrap_err(), told(order_layer(&closed)).await),
        (locks.mutex(long.as_str()).lock().await.unwrap_err(), told(too_long).await),
        (unscoped(42).await.unwrap_err(), told(LockLayer::http().key("nightly")).await),
        (lost, cut_off),
    ] {
        let log = Log::start_at(tracing::Level::DEBUG);
        let status = status_of(&error);
        assert_eq!(said(&status), said(&by_layer), "{error:?}");
        let told = format!("{status:?}{status}");
        assert!(!told.contains("order:42"), "{told}");
        // Who has to mend it finds it here.
        let text = log.text();
        assert!(text.contains(&error.to_string()), "{error} in {text}");
    }
}
