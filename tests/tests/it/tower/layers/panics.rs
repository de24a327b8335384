//! Handlers that panic: a layer further out that makes an answer of the panic finds the lock free.

use http_body::Body;
use lock_tower::http::LockBodyError;

use crate::tower::prelude::*;

const ORDER: &str = "order:42";

/// Panics in its call, in its first poll or in its second, in turn.
async fn panics(turn: usize) -> Result<Response<TestBody>, Infallible> {
    if turn % 3 == 2 {
        sleep(ms(1)).await;
    }
    if turn < usize::MAX {
        panic!("as the test wants it");
    }
    Ok(Response::new(Full::<Bytes>::default()))
}

/// As `tower_http::catch_panic::CatchPanicLayer` does it: the panic becomes a 500.
async fn caught<T, E>(answer: impl Future<Output = Result<Response<T>, E>>) -> u16 {
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(Ok(answer)) => answer.status().as_u16(),
        Ok(Err(_)) => 0,
        Err(panic) => {
            assert_eq!(*panic.downcast::<&str>().unwrap(), "as the test wants it");
            500
        }
    }
}

fn panicking(
    turns: &Arc<AtomicUsize>,
) -> impl Service<Request<TestBody>, Response = Response<TestBody>, Error = Infallible, Future: Send>
+ Clone
+ use<> {
    let turns = Arc::clone(turns);
    service_fn(move |_: Request<TestBody>| {
        let turn = turns.fetch_add(1, Ordering::SeqCst);
        assert!(!turn.is_multiple_of(3), "as the test wants it");
        panics(turn)
    })
}

/// The next request arrives at a process that is closer to Redis, and overtakes a release that the answer did
/// not wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_free_when_a_panic_is_answered() {
    let server = RedisServer::start().await;
    let (far, _proxy) = from_afar(&server).await;
    let near = connect(&server).await;
    let near = order_layer(&near).wait(Wait::None).build().unwrap();
    for finishes in [false, true] {
        let turns = Arc::default();
        let layer = order_layer(&far).finish_on_disconnect(finishes).release_timeout(PROMPTLY);
        let layer = layer.build().unwrap();
        let mut busy = 0;
        for _ in 0..30 {
            let answer = layer.layer(panicking(&turns)).oneshot(pay());
            assert_eq!(caught(answer).await, 500);
            let next = near.layer(Calls::default().service()).oneshot(pay()).await.unwrap();
            busy += usize::from(next.status() == StatusCode::CONFLICT);
        }
        assert_eq!((busy, turns.load(Ordering::SeqCst)), (0, 30), "{finishes}");
    }
}

/// The generic layer likewise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_free_when_a_generic_layers_panic_is_out() {
    let server = RedisServer::start().await;
    let (far, _proxy) = from_afar(&server).await;
    let near = connect(&server).await;
    let layer = LockLayer::new(far, |_: &Request<TestBody>| LockKey::new(ORDER).map(Some))
        .release_timeout(PROMPTLY);
    let turns = Arc::default();
    for round in 0..9 {
        assert_eq!(caught(layer.layer(panicking(&turns)).oneshot(pay())).await, 500);
        let next = near.mutex(ORDER).try_lock().await.unwrap();
        next.unwrap_or_else(|| panic!("busy in round {round}")).release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_waits_for_the_release_timeout_at_most() {
    let store = MemoryStore::new();
    let troubled = Troubled::new(store.clone());
    troubled.of_releases(Trouble::Waits);
    let locks = LockClient::builder().store(troubled.clone()).unwrap();
    let limit = ms(80);
    let layer = order_layer(&locks).release_timeout(limit).build().unwrap();
    let start = Instant::now();
    let answer = layer.layer(panicking(&Arc::new(AtomicUsize::new(1)))).oneshot(pay());
    assert_eq!(timeout(PROMPTLY, caught(answer)).await.expect("a hang"), 500);
    let waited = start.elapsed();
    assert!(waited.abs_diff(limit) <= ms(2), "{waited:?}");
    troubled.set(Trouble::None);
    free_soon(&store, ORDER).await;
}

/// A body that panics while it is sent.
#[derive(Default)]
struct Broken {
    polls: usize,
    hint: SizeHint,
}

impl Body for Broken {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.polls += 1;
        match self.polls {
            // Not there at the layer's first look.
            1 => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            2 => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"a part"))))),
            _ => panic!("as the test wants it"),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

/// Such a body under its lock.
async fn broken(layer: &HttpLockLayer, hint: SizeHint) -> LockBody<Broken> {
    let service = layer.layer(service_fn(move |_| async move {
        Ok::<_, Infallible>(Response::new(Broken { polls: 0, hint }))
    }));
    service.oneshot(pay()).await.unwrap().into_body()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_free_when_a_bodys_panic_is_out() {
    let server = RedisServer::start().await;
    let (far, _proxy) = from_afar(&server).await;
    let near = connect(&server).await;
    let layer = order_layer(&far).release_timeout(PROMPTLY).build().unwrap();
    for round in 0..5 {
        let mut body = broken(&layer, SizeHint::new()).await;
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "a part");
        assert!(near.mutex(ORDER).try_lock().await.unwrap().is_none());
        assert!(AssertUnwindSafe(body.frame()).catch_unwind().await.is_err());
        let next = near.mutex(ORDER).try_lock().await.unwrap();
        next.unwrap_or_else(|| panic!("busy in round {round}")).release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_panicked_has_no_clean_end() {
    // With a length that is announced, the part is all of it, and is kept back until the lock is free.
    for (hint, is_sent) in [(SizeHint::new(), true), (SizeHint::with_exact(6), false)] {
        let (locks, _, store) = two_clients();
        let mut body = broken(&order_layer(&locks).build().unwrap(), hint).await;
        if is_sent {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "a part");
        }
        assert!(AssertUnwindSafe(body.frame()).catch_unwind().await.is_err());
        assert_eq!(held(&store, ORDER), 0);
        assert!(!body.is_end_stream(), "an end without an error");
        assert_eq!(body.size_hint().exact(), None);
        match body.frame().await {
            Some(Err(LockBodyError::Panicked)) => {}
            other => panic!("it goes on with {other:?}"),
        }
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }
}
