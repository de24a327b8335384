//! What gRPC clients are told: trailers only, in place of problem details. The layer's answers, a refusal as a status, and an
//! error as a status are one table.

use http::request::Parts;
use http_body::Body as HttpBody;
use lock_tower::http::{LockResponse, status_of};
use tonic::{Code, Status};

use crate::tower::prelude::*;

const SECOND: Duration = secs(1);

fn said(status: &Status) -> (Code, &str, bool) {
    let pushback = status.metadata().contains_key("grpc-retry-pushback-ms");
    (status.code(), status.message(), pushback)
}

/// The status of an answer that is trailers only.
fn status<B: HttpBody>(response: &Response<B>) -> Status {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    assert!(response.body().is_end_stream(), "the headers are the trailers");
    let status = Status::from_header_map(response.headers()).expect("trailers only");
    // Where it can come back as it is, it is told when.
    let is_final = matches!(status.code(), Code::InvalidArgument | Code::Internal);
    assert_eq!(said(&status).2, !is_final, "{status:?}");
    status
}

async fn told(layer: HttpLockLayerBuilder, handler: Handler) -> Status {
    let mut call = pay();
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    status(&layer.build().unwrap().layer(handler).oneshot(call).await.unwrap())
}

#[distributed_lock(key = "order:{id}")]
async fn unscoped(id: u64) -> Result<(), LockError> {
    Ok(())
}

/// What the layer answers, what a responder makes of its refusal, and what a handler makes of the error of the same lock.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_one_status_by_every_way() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let failing = Troubled::refusing(StoreErrorKind::Unavailable);
    let failing = LockClient::builder().store(failing).unwrap();
    let closed = LockClient::in_memory();
    closed.shutdown(SECOND).await;
    let mutex = locks.mutex(ORDER);
    let brief = waits_and_holds(Wait::None, ms(300));
    let lost = locks.mutex("a").with(brief.clone()).lock().await.unwrap();
    let lost = lost.run(sleep(60 * SECOND)).await.unwrap_err();
    let busy = |status| order_layer(&locks).wait(Wait::None).busy(status);
    let other = || LockLayer::http().client(locks.clone());
    let too_long =
        other().key_fn(|_| Ok(Some(LockKey::builder().text(&"k".repeat(1000)).build()?)));
    let held = "Another request holds";
    for (layer, code, says, error) in [
        (
            busy(StatusCode::CONFLICT),
            Code::Aborted,
            held,
            mutex.clone().with(waits(Wait::None)).lock().await.err(),
        ),
        (busy(StatusCode::LOCKED), Code::FailedPrecondition, held, None),
        (busy(StatusCode::TOO_MANY_REQUESTS), Code::ResourceExhausted, held, None),
        (busy(StatusCode::SERVICE_UNAVAILABLE), Code::Unavailable, held, None),
        (
            order_layer(&locks).wait(SECOND),
            Code::Unavailable,
            "Other requests held this resource for too long",
            mutex.with(waits(SECOND)).lock().await.err(),
        ),
        (
            order_layer(&failing),
            Code::Unavailable,
            "Locks are not available",
            failing.mutex("a").lock().await.err(),
        ),
        (
            order_layer(&closed),
            Code::Unavailable,
            "Locks are not available",
            closed.mutex("a").lock().await.err(),
        ),
        (
            other().key("{header.x-tenant}"),
            Code::InvalidArgument,
            "the request has no header",
            None,
        ),
        (too_long, Code::InvalidArgument, "", locks.mutex("k".repeat(1000)).lock().await.err()),
        (
            LockLayer::http().key("nightly"),
            Code::Internal,
            "The server cannot lock this resource",
            unscoped(42).await.err(),
        ),
        (other().key("b").options(brief), Code::Internal, "The request lost its hold", Some(lost)),
    ] {
        let tonics = layer.clone().responder(|refusal: LockResponse, _: &Parts| {
            let tonics: Response<Bytes> = Status::from(&refusal).into_http();
            // For the same refusal, to the millisecond.
            let ours = refusal.into_http();
            let header = "grpc-retry-pushback-ms";
            assert_eq!(ours.headers().get(header), tonics.headers().get(header));
            tonics
        });
        let handler = || runs(|| sleep(60 * SECOND));
        let (ours, tonics) = (told(layer, handler()).await, told(tonics, handler()).await);
        assert_eq!(said(&ours), said(&tonics));
        assert!(ours.code() == code && ours.message().starts_with(says), "{code}: {ours:?}");
        let Some(error) = error else { continue };
        let log = Log::start_at(tracing::Level::DEBUG);
        let status = status_of(&error);
        assert_eq!(said(&status), said(&ours), "{error:?}");
        assert!(!format!("{status:?}{status}").contains(ORDER), "{status:?}");
        // An operator who has to mend it finds it here.
        assert!(log.text().contains(&error.to_string()), "{error} in {}", log.text());
    }
}
