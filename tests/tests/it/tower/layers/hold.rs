//! For how long a response holds its lock, by what its body is.

use futures_util::future::LocalBoxFuture;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body as HttpBody;
use lock_runtime::options::OnReleaseLost;

use crate::tower::prelude::*;

type Item = Result<Frame<Bytes>, &'static str>;

/// A body whose frames the test sends.
pub(crate) struct Sent {
    frames: mpsc::UnboundedReceiver<Item>,
    hint: SizeHint,
    /// Ran whenever it is polled.
    look: Box<dyn Fn() + Send + Sync>,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        (self.look)();
        self.frames.poll_recv(cx)
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

pub(crate) fn sent(hint: SizeHint) -> (mpsc::UnboundedSender<Item>, Sent) {
    let (sender, frames) = mpsc::unbounded_channel();
    (sender, Sent { frames, hint, look: Box::new(|| ()) })
}

fn data(text: &'static str) -> Item {
    Ok(Frame::data(text.into()))
}

fn trailers() -> Item {
    Ok(Frame::trailers(HeaderMap::new()))
}

/// The response of one request to a handler that answers with just this.
pub(crate) async fn respond<B>(
    layer: HttpLockLayerBuilder,
    request: Request<TestBody>,
    response: Response<B>,
) -> Response<LockBody<B>>
where
    B: HttpBody<Data = Bytes, Error: Send> + Unpin + Send + 'static,
{
    let response = Arc::new(Mutex::new(Some(response)));
    let service = layer.build().unwrap().layer(service_fn(move |_| {
        let response = response.lock().unwrap().take().unwrap();
        async { Ok::<_, Infallible>(response) }
    }));
    service.oneshot(request).await.unwrap()
}

/// Such a body under its lock.
async fn begun(layer: HttpLockLayerBuilder, body: Sent) -> LockBody<Sent> {
    respond(layer, pay(), Response::new(body)).await.into_body()
}

/// A layer over a store of its own.
fn layer() -> (HttpLockLayerBuilder, MemoryStore) {
    let (locks, _, store) = two_clients();
    (order_layer(&locks).wait(Wait::None), store)
}

/// The next frame, as text.
async fn next(body: &mut LockBody<Sent>) -> String {
    match body.frame().await {
        None => "end".to_owned(),
        Some(Err(error)) => format!("error: {error}"),
        Some(Ok(frame)) => match frame.into_data() {
            Ok(data) => String::from_utf8(data.to_vec()).unwrap(),
            Err(_) => "trailers".to_owned(),
        },
    }
}

const LOST: &str = "error: the lock was lost while the body was sent";

#[tokio::test(start_paused = true)]
async fn what_is_in_memory_is_free_with_the_response() {
    for (items, seen) in [
        (vec![data("a")], &["a"][..]),
        (vec![data("a"), trailers()], &["a", "trailers"]),
        (vec![Err("broken")], &["error: broken"]),
        (vec![data("a"), Err("broken")], &["a", "error: broken"]),
        (vec![], &[]),
    ] {
        let (layer, store) = layer();
        let (sender, body) = sent(SizeHint::new());
        items.into_iter().for_each(|item| sender.send(item).unwrap());
        drop(sender);
        let mut body = begun(layer, body).await;
        assert_eq!(held(&store, ORDER), 0, "{seen:?}");
        for expected in seen {
            assert_eq!(next(&mut body).await, *expected);
        }
        assert_eq!(next(&mut body).await, "end");
    }
}

/// A body that ends by its length would free its lock too early: its last frame is kept back until it has ended.
#[tokio::test(start_paused = true)]
async fn a_length_that_is_known_is_not_a_body_that_is_there() {
    let (exact, store) = layer();
    let (sender, body) = sent(SizeHint::with_exact(4));
    let mut body = begun(exact, body).await;
    assert_eq!((held(&store, ORDER), body.size_hint().exact()), (1, Some(4)));
    sender.send(data("ab")).unwrap();
    assert_eq!((&*next(&mut body).await, held(&store, ORDER)), ("ab", 1));
    sender.send(data("cd")).unwrap();
    assert!(body.frame().now_or_never().is_none() && held(&store, ORDER) == 1);
    drop(sender);
    assert_eq!((&*next(&mut body).await, held(&store, ORDER)), ("cd", 0));
    assert_eq!(next(&mut body).await, "end");

    // The same where only the header says so, and the frame came with the first look.
    let (announced, store) = layer();
    let (sender, body) = sent(SizeHint::new());
    sender.send(data("abcd")).unwrap();
    let response = Response::builder().header(CONTENT_LENGTH, 4).body(body).unwrap();
    let mut body = respond(announced, pay(), response).await.into_body();
    assert!(body.frame().now_or_never().is_none() && held(&store, ORDER) == 1);
    drop(sender);
    assert_eq!((&*next(&mut body).await, held(&store, ORDER)), ("abcd", 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_held_to_its_end() {
    let (builder, store) = layer();
    let (sender, body) = sent(SizeHint::new());
    let mut body = begun(builder, body).await;
    for event in ["one", "two", "three"] {
        sender.send(data(event)).unwrap();
        assert_eq!((&*next(&mut body).await, held(&store, ORDER)), (event, 1));
        sleep(secs(9)).await;
    }
    drop(sender);
    assert!(!body.is_end_stream());
    assert_eq!((&*next(&mut body).await, held(&store, ORDER)), ("end", 0));
    assert!(body.is_end_stream());

    // What was kept back of one that fails would make it look complete.
    let (builder, store) = layer();
    let (sender, body) = sent(SizeHint::with_exact(2));
    let mut body = begun(builder, body).await;
    sender.send(data("ab")).unwrap();
    sender.send(Err("broken")).unwrap();
    assert_eq!((&*next(&mut body).await, held(&store, ORDER)), ("error: broken", 0));
    assert_eq!(next(&mut body).await, "end");

    let (builder, store) = layer();
    let (_sender, body) = sent(SizeHint::new());
    let dropped = begun(builder, body).await;
    assert_eq!(held(&store, ORDER), 1);
    drop(dropped);
    free_soon(&store, ORDER).await;
}

#[tokio::test(start_paused = true)]
async fn the_layer_may_be_told() {
    let (builder, store) = layer();
    let (_sender, body) = sent(SizeHint::new());
    let _body = begun(builder.hold(HoldUntil::Response), body).await;
    assert_eq!(held(&store, ORDER), 0, "a stream that does not need its lock");

    let (builder, store) = layer();
    let full = Response::new(TestBody::from("done"));
    let mut body = respond(builder.hold(HoldUntil::Body), pay(), full).await.into_body();
    assert_eq!((held(&store, ORDER), body.size_hint().exact()), (1, Some(4)));
    let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((&last[..], held(&store, ORDER)), (&b"done"[..], 0));
    assert!(body.is_end_stream());
    // No client reads these bodies.
    for (method, status, expected) in
        [("HEAD", 200, 0), ("PUT", 200, 1), ("PUT", 101, 0), ("PUT", 204, 0), ("PUT", 304, 0)]
    {
        for hold in [HoldUntil::Auto, HoldUntil::Body] {
            let (builder, store) = layer();
            let (_sender, body) = sent(SizeHint::new());
            let response = Response::builder().status(status).body(body).unwrap();
            let builder = builder.hold(hold).methods([Method::HEAD, Method::PUT]);
            let _answer = respond(builder, request(method, "/orders/42/pay"), response).await;
            assert_eq!(held(&store, ORDER), expected, "{method} {status} {hold:?}");
        }
    }
}

/// S-13: the body is gone before the store could give the lock to another task.
#[tokio::test(start_paused = true)]
async fn a_lease_lost_on_the_way_is_never_a_clean_end() {
    let (locks, peer, _) = two_clients();
    let lease = ms(500);
    let terms = waits_and_holds(Wait::None, lease);
    let dropped = Calls::default();
    let (sender, mut body) = sent(SizeHint::with_exact(2));
    let alive = OnDrop(dropped.clone());
    body.look = Box::new(move || assert_eq!(alive.0.count(), 0));
    let start = Instant::now();
    let mut body = begun(order_layer(&locks).options(terms.clone()), body).await;
    sender.send(data("ab")).unwrap();
    assert_eq!(next(&mut body).await, LOST);
    assert!(start.elapsed() < lease && dropped.count() == 1, "{:?}", start.elapsed());
    peer.mutex(ORDER).lock().await.unwrap().release().await.unwrap();

    // Let finish, it goes on, and then does not look complete all the same.
    let (sender, body) = sent(SizeHint::new());
    let layer = order_layer(&locks).options(terms.on_lost(OnLost::Finish));
    let mut body = begun(layer, body).await;
    sleep(lease * 2).await;
    sender.send(data("late")).unwrap();
    assert_eq!(next(&mut body).await, "late");
    drop(sender);
    assert_eq!(next(&mut body).await, LOST);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_cut_off() {
    let limit = secs(7);
    let (locks, _, store) = two_clients();
    let layer = || order_layer(&locks).wait(Wait::None).max_hold(limit);
    let cut = "error: the body was not sent within the time for which it may hold the lock";
    let (sender, body) = sent(SizeHint::with_exact(2));
    let start = Instant::now();
    let mut body = begun(layer(), body).await;
    sender.send(data("ab")).unwrap();
    assert_eq!(next(&mut body).await, cut);
    assert!(start.elapsed().abs_diff(limit) < ms(5), "{:?}", start.elapsed());
    assert_eq!(held(&store, ORDER), 0);

    // No task polls a body whose client does not read.
    let (sender, body) = sent(SizeHint::new());
    let mut body = begun(layer(), body).await;
    sleep(limit - ms(5)).await;
    assert_eq!(held(&store, ORDER), 1);
    sleep(ms(10)).await;
    free_soon(&store, ORDER).await;
    sender.send(data("more")).unwrap();
    assert_eq!(next(&mut body).await, cut);
    assert_eq!(next(&mut body).await, "end");
}

/// S-13: a loss that only the release finds is logged, or takes the place of the answer.
#[tokio::test(start_paused = true)]
async fn a_release_that_finds_the_hold_gone_may_be_an_error() {
    // A store of its own for each: what it says that we do not hold, it keeps.
    let locks = || {
        let store = Troubled::new(MemoryStore::new());
        store.of_releases(Trouble::NotOwner);
        LockClient::builder().store(store).unwrap()
    };
    for (on_release_lost, status, end) in
        [(OnReleaseLost::Log, 200, "end"), (OnReleaseLost::Error, 500, LOST)]
    {
        let terms = waits(Wait::None).on_release_lost(on_release_lost);
        let layer = || order_layer(&locks()).options(terms.clone());
        let answer = respond(layer(), pay(), Response::new(TestBody::from("done"))).await;
        assert_eq!(answer.status(), status);
        let (sender, body) = sent(SizeHint::new());
        let mut body = begun(layer(), body).await;
        drop(sender);
        assert_eq!(next(&mut body).await, end);
    }
}

/// Looks, when dropped, whether the lock still protects it.
struct WasHeld(MemoryStore, Arc<Mutex<Option<bool>>>);

impl Drop for WasHeld {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = Some(held(&self.0, ORDER) == 1);
    }
}

/// S-13: whatever a body does when it is dropped, it does under its lock.
#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_before_its_lock() {
    for (item, seen) in
        [(None, "end"), (Some(Err("broken")), "error: broken"), (Some(trailers()), "trailers")]
    {
        let (layer, store) = layer();
        let was_held = Arc::default();
        let look = WasHeld(store.clone(), Arc::clone(&was_held));
        let (sender, mut body) = sent(SizeHint::new());
        body.look = Box::new(move || assert_eq!(*look.1.lock().unwrap(), None));
        let mut body = begun(layer, body).await;
        item.into_iter().for_each(|item| sender.send(item).unwrap());
        drop(sender);
        assert_eq!(next(&mut body).await, seen);
        assert_eq!((*was_held.lock().unwrap(), held(&store, ORDER)), (Some(true), 0), "{seen}");
    }
}

/// S-13, S-20: and so is a handler whose request is dropped, wherever it stands, and nothing is left.
#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_before_its_lock() {
    let (locks, _, store) = two_clients();
    let was_held = Arc::new(Mutex::new(None));
    let parts = (store.clone(), Arc::clone(&was_held));
    let handler = runs(move || {
        let protected = WasHeld(parts.0.clone(), Arc::clone(&parts.1));
        async move {
            sleep(ms(1)).await;
            sleep(ms(1)).await;
            drop(protected);
        }
    });
    let service = order_layer(&locks).build().unwrap().layer(handler);
    let free = async |_| {
        free_soon(&store, ORDER).await;
        assert_ne!(*was_held.lock().unwrap(), Some(false), "it was dropped without its lock");
    };
    let (polls, answer) = drop_at_every_await(|| service.clone().oneshot(pay()), free).await;
    assert!(polls >= 3 && answer.unwrap().status() == 200, "{polls}");
}

/// S-6: what a body does while it is sent is inside its hold, as the handler was.
#[tokio::test(start_paused = true)]
async fn a_body_re_enters_its_lock() {
    let (locks, _, _) = two_clients();
    let (sender, mut body) = sent(SizeHint::new());
    let entered = Calls::default();
    let (count, nested) = (entered.clone(), locks.clone());
    body.look = Box::new(move || {
        let guard = nested.mutex(ORDER).lock().now_or_never();
        drop(guard.expect("nothing to wait for").unwrap());
        count.add();
    });
    let mut body = begun(order_layer(&locks), body).await;
    sender.send(data("one")).unwrap();
    assert_eq!(next(&mut body).await, "one");
    drop(sender);
    assert_eq!(next(&mut body).await, "end");
    assert_eq!(entered.count(), 3, "at the first look, for the frame, and for the end");
}

/// An answer, a panic and the end of a body wait for a slow release, and for a moment only.
#[tokio::test(start_paused = true)]
async fn a_slow_release_keeps_the_end_back_for_a_moment_only() {
    let store = MemoryStore::new();
    let troubled = Troubled::new(store.clone());
    let locks = LockClient::builder().store(troubled.clone()).unwrap();
    let limited = || order_layer(&locks).release_timeout(ms(80));
    let answers = async |layer: HttpLockLayerBuilder| {
        ask(&layer.build().unwrap(), pay()).await;
    };
    let panics = async {
        let handler = runs(|| async { std::panic::resume_unwind(Box::new("planned")) });
        let answer = limited().build().unwrap().layer(handler).oneshot(pay());
        assert!(AssertUnwindSafe(answer).catch_unwind().await.is_err());
    };
    let body_ends = async {
        let (sender, body) = sent(SizeHint::new());
        let mut body = begun(limited(), body).await;
        drop(sender);
        assert_eq!(next(&mut body).await, "end");
    };
    let ends: [(&str, Duration, LocalBoxFuture<'_, ()>); 4] = [
        ("an answer by default", ms(250), Box::pin(answers(order_layer(&locks)))),
        ("an answer", ms(80), Box::pin(answers(limited()))),
        ("a panic", ms(80), Box::pin(panics)),
        ("a body", ms(80), Box::pin(body_ends)),
    ];
    for (what, limit, end) in ends {
        let log = Log::start_at(tracing::Level::DEBUG);
        troubled.of_releases(Trouble::Waits);
        let start = Instant::now();
        timeout(PROMPTLY, end).await.expect("a hang");
        assert!(start.elapsed().abs_diff(limit) <= ms(2), "{what}: {:?}", start.elapsed());
        assert!(log.text().contains("release not confirmed in time"), "{what}: {}", log.text());
        assert_eq!(held(&store, ORDER), 1);
        troubled.set(Trouble::None);
        free_soon(&store, ORDER).await;
    }
}
