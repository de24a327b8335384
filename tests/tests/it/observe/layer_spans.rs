//! What the span of a layer's hold says of a handler or a body that does not come to its end.

use http_body::Body as HttpBody;
use lock_runtime::observe::SPAN_HOLD;

use crate::observe::scenario::*;
use crate::observe::tracer::Tracer;
use crate::tower::http::*;

type Next = Poll<Option<Result<Frame<Bytes>, &'static str>>>;
type Step = fn() -> Next;

/// A body that has nothing yet when it is polled first, and then does this.
struct Then(Step, bool);

impl HttpBody for Then {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Next {
        if std::mem::replace(&mut self.1, true) {
            return (self.0)();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

const LIMIT: Duration = secs(7);

fn layer(client: &LockClient) -> HttpLockLayerBuilder {
    LockLayer::http().client(client.clone()).key("job").max_body_hold(LIMIT)
}

/// A body is done when it says so itself; what the layer or a panic stops is cancelled.
#[tokio::test(start_paused = true)]
async fn bodies() {
    let tracer = Tracer::default();
    let _here = tracer.install();
    let client = builder().in_memory().unwrap();
    let all = || layer(&client);
    // The handler has a span of its own, before.
    let outcome = || tracer.spans(SPAN_HOLD).pop().unwrap().field("lock.outcome").to_owned();
    let body = async |layer: HttpLockLayerBuilder, then| -> LockBody<Then> {
        let service = layer.build().unwrap().layer(service_fn(move |_| async move {
            Ok::<_, Infallible>(Response::new(Then(then, false)))
        }));
        service.oneshot(Request::post("/").body(()).unwrap()).await.unwrap().into_body()
    };
    let hangs: Step = || Poll::Pending;
    let rows: [(&str, HttpLockLayerBuilder, Step, &str); 5] = [
        ("the end", all(), || Poll::Ready(None), "done"),
        ("an error of its own", all(), || Poll::Ready(Some(Err("planned"))), "done"),
        ("a panic", all(), || panic!("planned"), "cancelled"),
        ("the limit", all(), hangs, "cancelled"),
        ("a loss", all().options(fixed(ms(200))), hangs, "lost"),
    ];
    for (what, layer, then, expected) in rows {
        let mut body = body(layer, then).await;
        let end = AssertUnwindSafe(body.frame()).catch_unwind().await;
        assert!(!matches!(end, Ok(Some(Ok(_)))), "{what}: {end:?}");
        assert_eq!(outcome(), expected, "{what}");
    }
    let begun = async || {
        let mut body = body(all(), hangs).await;
        assert!(body.frame().now_or_never().is_none());
        body
    };
    let mut unread = begun().await;
    sleep(2 * LIMIT).await;
    assert!(unread.frame().await.unwrap().is_err());
    assert_eq!(outcome(), "cancelled", "not polled by its server");
    drop(begun().await);
    assert_eq!(outcome(), "cancelled", "dropped");
    let mut shut_down = begun().await;
    client.shutdown(secs(1)).await;
    assert!(shut_down.frame().await.unwrap().is_err());
    assert_eq!(outcome(), "cancelled", "shut down");
}

/// A handler likewise, of either layer.
#[tokio::test(start_paused = true)]
async fn handlers_that_panic() {
    let tracer = Tracer::default();
    let _here = tracer.install();
    let client = builder().in_memory().unwrap();
    let handler = service_fn(async |request: Request<()>| {
        assert!(request.uri().path() != "/panics", "as the test wants it");
        Ok::<_, Infallible>(Response::new(http_body_util::Empty::<Bytes>::new()))
    });
    let name = |_: &Request<()>| LockKey::new("job").map(Some);
    let generic = LockLayer::new(client.clone(), name).layer(handler);
    let http = layer(&client).build().unwrap().layer(handler);
    for (path, expected) in [("/", "done"), ("/panics", "cancelled")] {
        let request = || Request::post(path).body(()).unwrap();
        let calls = [
            AssertUnwindSafe(generic.clone().oneshot(request())).catch_unwind().await.is_err(),
            AssertUnwindSafe(http.clone().oneshot(request())).catch_unwind().await.is_err(),
        ];
        assert_eq!(calls, [path == "/panics"; 2]);
        let spans = tracer.closed(SPAN_HOLD);
        let outcomes: Vec<_> = spans.iter().rev().map(|span| span.field("lock.outcome")).collect();
        assert_eq!(outcomes[..2], [expected; 2], "{path}");
    }
}
