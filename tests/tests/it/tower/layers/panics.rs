//! Handlers that panic: a layer further out that makes an answer of the panic finds the lock free.

use http_body::Body as HttpBody;
use lock_tower::http::LockBodyError;

use crate::tower::prelude::*;

const PLANNED: &str = "as the test wants it";

/// Panics in its call, in its first poll or in its second, in turn.
fn panicking(turns: &Calls) -> Handler {
    let turns = turns.clone();
    runs(move || {
        let turn = turns.count() % 3;
        turns.add();
        assert!(turn != 0, "{PLANNED}");
        async move {
            if turn == 2 {
                sleep(ms(1)).await;
            }
            panic!("{PLANNED}")
        }
    })
}

/// As `tower_http::catch_panic::CatchPanicLayer` does it: the panic becomes an answer.
async fn panics(answer: impl Future) {
    let panic = AssertUnwindSafe(answer).catch_unwind().await.err().expect("it panics");
    assert_eq!(*panic.downcast::<String>().unwrap(), PLANNED);
}

/// The next request arrives at a process that is closer to Redis, and overtakes a release that the answer did
/// not wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_free_when_a_panic_is_answered() {
    let server = RedisServer::start().await;
    let (far, _proxy) = from_afar(&server).await;
    let near = connect(&server).await;
    let http = |finishes| {
        let layer = order_layer(&far).finish_on_disconnect(finishes).release_timeout(PROMPTLY);
        layer.build().unwrap()
    };
    let generic =
        LockLayer::new(far.clone(), |_: &Request<TestBody>| LockKey::new(ORDER).map(Some));
    let generic = generic.release_timeout(PROMPTLY);
    let turns = Calls::default();
    for round in 0..12 {
        for finishes in [false, true] {
            panics(http(finishes).layer(panicking(&turns)).oneshot(pay())).await;
            is_free(&near, ORDER, &format!("{finishes}, round {round}")).await;
        }
        panics(generic.layer(panicking(&turns)).oneshot(pay())).await;
        is_free(&near, ORDER, &format!("generic, round {round}")).await;
    }
    for round in 0..5 {
        let mut body = broken(&http(false), SizeHint::new()).await;
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "a part");
        assert!(near.mutex(ORDER).try_lock().await.unwrap().is_none());
        panics(body.frame()).await;
        is_free(&near, ORDER, &format!("a body, round {round}")).await;
    }
}

/// A body that panics while it is sent.
#[derive(Debug)]
struct Broken {
    polls: usize,
    hint: SizeHint,
}

impl HttpBody for Broken {
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
            _ => panic!("{PLANNED}"),
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

#[tokio::test(start_paused = true)]
async fn a_body_that_has_panicked_has_no_clean_end() {
    // With a length that is announced, the part is all of it, and is kept back until the lock is free.
    for (hint, is_sent) in [(SizeHint::new(), true), (SizeHint::with_exact(6), false)] {
        let (locks, _, store) = two_clients();
        let mut body = broken(&order_layer(&locks).build().unwrap(), hint).await;
        if is_sent {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "a part");
        }
        panics(body.frame()).await;
        assert_eq!(held(&store, ORDER), 0);
        assert!(!body.is_end_stream(), "an end without an error");
        assert_eq!(body.size_hint().exact(), None);
        assert!(matches!(body.frame().await, Some(Err(LockBodyError::Panicked))));
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }
}
