//! What a layer reads of a request's body while the request waits, and what the handler gets of it.

use std::collections::VecDeque;
use std::io;

use http::{HeaderMap, HeaderName};
use http_body::Body as _;
use http_body_util::Limited;
use http_body_util::combinators::UnsyncBoxBody;
use proptest::prelude::*;
use tower::BoxError;

use crate::tower::prelude::*;

/// Longer than a request waits before its body is read.
const A_WHILE: Duration = ms(100);

type Boxed = UnsyncBoxBody<Bytes, BoxError>;

/// What a body yields, as far as it can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Data(Vec<u8>),
    Trailers(u8),
    Error(String),
    /// Nothing for so many milliseconds. A body does not show it.
    Pause(u8),
}

impl Step {
    fn bytes(&self) -> u64 {
        if let Self::Data(data) = self { data.len() as u64 } else { 0 }
    }
}

/// A body that does what it is told, and counts how often it is polled.
struct Scripted {
    steps: VecDeque<Step>,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
    /// It knows its length and its end.
    knows: bool,
    polls: Arc<AtomicUsize>,
}

impl Scripted {
    fn new(steps: impl IntoIterator<Item = Step>, knows: bool) -> (Self, Arc<AtomicUsize>) {
        let polls = Arc::<AtomicUsize>::default();
        let steps = steps.into_iter().collect();
        (Self { steps, pause: None, knows, polls: polls.clone() }, polls)
    }
}

impl http_body::Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let frame = match self.steps.pop_front() {
                Some(Step::Pause(millis)) => {
                    self.pause = Some(Box::pin(sleep(ms(millis.into()))));
                    continue;
                }
                Some(Step::Data(data)) => Ok(Frame::data(Bytes::from(data))),
                Some(Step::Trailers(n)) => Ok(Frame::trailers(HeaderMap::from_iter([(
                    HeaderName::from_static("x-sum"),
                    u16::from(n).into(),
                )]))),
                Some(Step::Error(text)) => Err(io::Error::other(text)),
                None => return Poll::Ready(None),
            };
            return Poll::Ready(Some(frame));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.knows && self.pause.is_none() && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.knows && !self.steps.iter().any(|step| matches!(step, Step::Error(_))) {
            true => SizeHint::with_exact(self.steps.iter().map(Step::bytes).sum()),
            false => SizeHint::default(),
        }
    }
}

fn step(frame: Result<Frame<Bytes>, BoxError>) -> Step {
    match frame.map(Frame::into_data) {
        Ok(Ok(data)) => Step::Data(data.into()),
        Ok(Err(frame)) => {
            let sum = frame.into_trailers().unwrap()["x-sum"].to_str().unwrap().to_owned();
            Step::Trailers(sum.parse().unwrap())
        }
        Err(error) => Step::Error(error.to_string()),
    }
}

/// Reads all of it, and looks whether what it says of itself is true at each step.
async fn read(mut body: Boxed, expected: &[Step], knows: bool) {
    for n in 0..=expected.len() {
        let (left, hint) = (&expected[n..], body.size_hint());
        let bytes = left.iter().map(Step::bytes).sum();
        let fails = left.iter().any(|step| matches!(step, Step::Error(_)));
        assert!(hint.lower() <= bytes && hint.upper().is_none_or(|upper| upper >= bytes));
        assert!(hint.exact().is_none() || !fails, "a body that fails has no length");
        assert!(!body.is_end_stream() || left.is_empty(), "it ends with {left:?} to come");
        if knows && !fails {
            assert_eq!(hint.exact(), Some(bytes));
            assert_eq!(body.is_end_stream(), left.is_empty());
        }
        let frame = body.frame().await.map(step);
        assert_eq!(frame.as_ref(), left.first(), "frame {n} of {expected:?}");
    }
}

/// A layer, by which a waiting request's body of either type is read, and another process.
struct Scene {
    layer: HttpLockLayer,
    peer: LockClient,
    /// Counts the bodies that were made anew.
    rebuilt: Calls,
}

impl Scene {
    fn new(adapt: impl FnOnce(HttpLockLayerBuilder) -> HttpLockLayerBuilder) -> Self {
        let (locks, peer, _) = two_clients();
        let rebuilt = Calls::default();
        let counts = rebuilt.clone();
        let builder = adapt(order_layer(&locks)).request_body::<Boxed>(move |body| {
            counts.add();
            body.boxed_unsync()
        });
        Self { layer: builder.build().unwrap(), peer, rebuilt }
    }

    /// Sends a request with that body, which `handle` then gets; the lock is busy for as long as that.
    async fn send<F>(
        &self,
        body: Boxed,
        busy_for: Option<Duration>,
        handle: impl Fn(Boxed) -> F + Clone + Send + 'static,
    ) -> String
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let service = self.layer.layer(service_fn(move |request: Request<Boxed>| {
            let handled = handle(request.into_body());
            handled.map(|()| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done"))))
        }));
        if let Some(busy_for) = busy_for {
            let busy = self.peer.mutex(ORDER).lock().await.unwrap();
            lock_tests::spawn(async move {
                sleep(busy_for).await;
                busy.release().await.unwrap();
            });
        }
        let call = service.oneshot(Request::post("/orders/42/pay").body(body).unwrap());
        seen(timeout(4 * PROMPTLY, call).await.expect("no answer").unwrap()).await
    }
}

fn boxed(body: Scripted) -> Boxed {
    body.map_err(Into::into).boxed_unsync()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..400).prop_map(Step::Data),
        3 => (1..60_u8).prop_map(Step::Pause),
        1 => "[a-z]{1,8}".prop_map(Step::Error),
    ];
    let trailers = prop::option::of(any::<u8>().prop_map(Step::Trailers));
    (prop::collection::vec(step, 0..12), trailers).prop_map(|(mut steps, trailers)| {
        steps.extend(trailers);
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_ahead_is_handed_on_unchanged(
        steps in steps(),
        knows: bool,
        limit in prop_oneof![Just(0), 1..3_000_usize, Just(usize::MAX)],
        busy_for in 0..300_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scene = Scene::new(|layer| layer.read_ahead(limit));
            let seen: Vec<Step> =
                steps.iter().filter(|step| !matches!(step, Step::Pause(_))).cloned().collect();
            let knows = knows && !matches!(steps.last(), Some(Step::Pause(_)));
            let (body, _) = Scripted::new(steps, knows);
            let handle = move |body| {
                let seen = seen.clone();
                async move { read(body, &seen, knows).await }
            };
            let busy_for = ms(busy_for);
            let answer = scene.send(boxed(body), Some(busy_for), handle).await;
            assert!(answer.starts_with("200 "), "{answer}");
        });
    }
}

/// Nothing is read, and no body made anew, for a request that does not wait or has no body.
#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_is_handed_on_as_it_is() {
    let scene = Scene::new(|layer| layer);
    let data = [Step::Data(vec![7; 100])];
    for busy_for in [None, Some(ms(10))] {
        let (body, polls) = Scripted::new(data.clone(), true);
        let handle = move |body| {
            assert_eq!(polls.load(Ordering::SeqCst), 0, "it was read");
            async move { read(body, &[Step::Data(vec![7; 100])], true).await }
        };
        assert!(scene.send(boxed(body), busy_for, handle).await.starts_with("200 "));
    }
    let (empty, polls) = Scripted::new([], true);
    let handle = |body: Boxed| {
        assert!(body.is_end_stream());
        async {}
    };
    assert!(scene.send(boxed(empty), Some(A_WHILE), handle).await.starts_with("200 "));
    assert_eq!((polls.load(Ordering::SeqCst), scene.rebuilt.count()), (0, 0));

    // A busy upload is refused unread.
    let scene = Scene::new(|layer| layer.wait(Wait::None));
    let (body, polls) = Scripted::new(data, true);
    let refused = scene.send(boxed(body), Some(A_WHILE), |_| async { unreachable!() }).await;
    assert!(refused.starts_with("409 ") && polls.load(Ordering::SeqCst) == 0, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn no_more_is_read_than_the_layer_is_told() {
    let frame = size_of::<Frame<Bytes>>();
    for (limit, length, most) in [
        (None, 1, 65_536 / (frame + 1) + 1),
        (None, 1_000, 65_536 / (frame + 1_000) + 1),
        (None, 100_000, 1),
        (Some(5_000), 1_000, 5_000 / (frame + 1_000) + 1),
        (Some(0), 1_000, 0),
    ] {
        let scene = Scene::new(|layer| limit.map_or(layer.clone(), |n| layer.read_ahead(n)));
        let steps = vec![Step::Data(vec![7; length]); 1_000];
        let (body, polls) = Scripted::new(steps.clone(), false);
        let handle = move |body| {
            assert_eq!(polls.load(Ordering::SeqCst), most, "limit {limit:?}, frames of {length}");
            let steps = steps.clone();
            async move { read(body, &steps, false).await }
        };
        assert!(scene.send(boxed(body), Some(A_WHILE), handle).await.starts_with("200 "));
        assert_eq!(scene.rebuilt.count(), usize::from(most > 0));
    }
}

/// An error that says that the client is gone ends the wait; any other is the handler's.
#[tokio::test(start_paused = true)]
async fn an_incomplete_body_ends_the_wait() {
    for (kind, ends) in [
        (io::ErrorKind::UnexpectedEof, true),
        (io::ErrorKind::ConnectionReset, true),
        // As a layer has it that limits the time of a body.
        (io::ErrorKind::TimedOut, false),
    ] {
        let scene = Scene::new(|layer| layer);
        let error = BoxError::from(io::Error::other(io::Error::new(kind, "as the test wants it")));
        let frames = [Ok(Frame::data(Bytes::from_static(b"a part of it"))), Err(error)];
        let body = StreamBody::new(stream::iter(frames)).boxed_unsync();
        let calls = Calls::default();
        let counts = calls.clone();
        let handle = move |body: Boxed| {
            counts.add();
            async { assert!(body.collect().await.is_err()) }
        };
        let start = Instant::now();
        let answer = scene.send(body, Some(secs(1)), handle).await;
        assert_eq!(calls.count(), usize::from(!ends), "{kind:?}: {answer}");
        if ends {
            assert!(start.elapsed() < secs(1), "it waits");
            assert!(
                answer.starts_with("400 ") && answer.contains("lock-body-incomplete"),
                "{answer}"
            );
            assert!(answer.contains(r#""executed":false"#), "{answer}");
            sleep(secs(2)).await;
            is_free(&scene.peer, ORDER, "given up").await;
        }
    }
}

/// The error of a layer that limits bodies is the handler's, whether the request has waited or not.
#[tokio::test(start_paused = true)]
async fn other_errors_are_the_handlers() {
    let (locks, peer, _) = two_clients();
    let app = Router::new().route("/orders/42/pay", post(async |body: Bytes| body));
    let app = app.route_layer(order_layer(&locks).build().unwrap());
    for (length, status) in [(10, 200), (11, 413)] {
        for is_busy in [false, true] {
            let busy = peer.mutex(ORDER).lock().await.unwrap();
            let busy = is_busy.then_some(busy);
            let bytes = stream::repeat(Bytes::from_static(b"x")).take(length);
            let body =
                Body::new(Limited::new(Body::from_stream(bytes.map(Ok::<_, io::Error>)), 10));
            let request = Request::post("/orders/42/pay").body(body).unwrap();
            let call = lock_tests::spawn(app.clone().oneshot(request));
            sleep(A_WHILE).await;
            drop(busy);
            let answer = timeout(PROMPTLY, call).await.expect("no answer").unwrap().unwrap();
            assert_eq!(answer.status(), status);
        }
    }
}

/// A server's frames are slices of its read buffers: a frame of one byte must not keep such a buffer.
#[tokio::test]
async fn small_frames_do_not_keep_the_buffers_they_are_cut_from() {
    let scene = Scene::new(|builder| builder);
    let buffers: Arc<Vec<_>> = Arc::new((0..100).map(|_| Bytes::from(vec![b'x'; 8192])).collect());
    let frames: Vec<_> = buffers.iter().map(|buffer| Ok(Frame::data(buffer.slice(7..8)))).collect();
    let body = StreamBody::new(stream::iter(frames)).boxed_unsync();
    let handle = move |body: Boxed| {
        let shared = buffers.iter().filter(|buffer| !buffer.is_unique()).count();
        async move {
            assert_eq!(shared, 0, "buffers that are kept");
            assert_eq!(body.collect().await.unwrap().to_bytes(), vec![b'x'; 100]);
        }
    };
    scene.send(body, Some(A_WHILE), handle).await;
    assert_eq!(scene.rebuilt.count(), 1);
}
