//! For how long a response holds its lock, by what its body is.

use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use lock_runtime::options::OnReleaseLost;
use lock_tower::http::LockBodyError;

use crate::tower::prelude::*;

const ORDER: &str = "order:42";

type Item = Result<Frame<Bytes>, &'static str>;

/// A body whose frames the test sends.
pub(crate) struct Sent {
    frames: mpsc::UnboundedReceiver<Item>,
    hint: SizeHint,
    /// Ran whenever it is polled.
    look: Box<dyn Fn() + Send + Sync>,
}

impl Body for Sent {
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

/// Counts when it is dropped.
struct Dropped(Calls);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add();
    }
}

pub(crate) fn sent(hint: SizeHint) -> (mpsc::UnboundedSender<Item>, Sent) {
    let (sender, frames) = mpsc::unbounded_channel();
    (sender, Sent { frames, hint, look: Box::new(|| ()) })
}

fn data(text: &'static str) -> Item {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

/// The response of one request to a handler that answers with just this.
pub(crate) async fn respond<B>(
    layer: HttpLockLayerBuilder,
    request: Request<TestBody>,
    response: Response<B>,
) -> Response<LockBody<B>>
where
    B: Body<Data = Bytes, Error: Send> + Unpin + Send + 'static,
{
    let response = Arc::new(Mutex::new(Some(response)));
    let service = layer.build().unwrap().layer(service_fn(move |_| {
        let response = response.lock().unwrap().take().unwrap();
        async { Ok::<_, Infallible>(response) }
    }));
    service.oneshot(request).await.unwrap()
}

/// A layer over a store of its own.
fn layer() -> (HttpLockLayerBuilder, MemoryStore) {
    let (locks, _, store) = two_clients();
    (order_layer(&locks).options(options(Wait::None)), store)
}

fn text(frame: Option<Result<Frame<Bytes>, LockBodyError<&'static str>>>) -> String {
    match frame {
        None => "end".to_owned(),
        Some(Err(error)) => format!("error: {error}"),
        Some(Ok(frame)) => match frame.into_data() {
            Ok(data) => String::from_utf8(data.to_vec()).unwrap(),
            Err(_) => "trailers".to_owned(),
        },
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_memory_is_free_with_the_response() {
    let trailers = || Ok(Frame::trailers(HeaderMap::new()));
    for (items, seen) in [
        (vec![data("a")], vec!["a"]),
        (vec![data("a"), trailers()], vec!["a", "trailers"]),
        (vec![Err("broken")], vec!["error: broken"]),
        (vec![data("a"), Err("broken")], vec!["a", "error: broken"]),
        (vec![], vec![]),
    ] {
        let (layer, store) = layer();
        let (sender, body) = sent(SizeHint::new());
        items.into_iter().for_each(|item| sender.send(item).unwrap());
        drop(sender);
        let answer = respond(layer, pay(), Response::new(body)).await;
        assert_eq!(held(&store, ORDER), 0, "{seen:?}");
        let mut body = answer.into_body();
        for expected in seen {
            assert_eq!(text(body.frame().await), expected);
        }
        assert_eq!(text(body.frame().await), "end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_length_that_is_known_is_not_a_body_that_is_there() {
    let (layer, store) = layer();
    let (sender, body) = sent(SizeHint::with_exact(4));
    let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
    assert_eq!((held(&store, ORDER), body.size_hint().exact()), (1, Some(4)));
    sender.send(data("ab")).unwrap();
    assert_eq!((text(body.frame().await).as_str(), held(&store, ORDER)), ("ab", 1));
    sender.send(data("cd")).unwrap();
    // Whoever counts bytes would take this for the end, and the body goes on.
    assert!(body.frame().now_or_never().is_none() && held(&store, ORDER) == 1);
    drop(sender);
    assert_eq!((text(body.frame().await).as_str(), held(&store, ORDER)), ("cd", 0));
    assert_eq!(text(body.frame().await), "end");
}

/// The same where only the header says so, and the frame came with the first look.
#[tokio::test(start_paused = true)]
async fn an_announced_length_is_kept_back_too() {
    let (layer, store) = layer();
    let (sender, body) = sent(SizeHint::new());
    sender.send(data("abcd")).unwrap();
    let response = Response::builder().header(CONTENT_LENGTH, 4).body(body).unwrap();
    let mut body = respond(layer, pay(), response).await.into_body();
    assert!(body.frame().now_or_never().is_none() && held(&store, ORDER) == 1);
    drop(sender);
    assert_eq!((text(body.frame().await).as_str(), held(&store, ORDER)), ("abcd", 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_held_to_its_end() {
    let (layer, store) = layer();
    let (sender, body) = sent(SizeHint::new());
    let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
    for event in ["one", "two", "three"] {
        sender.send(data(event)).unwrap();
        assert_eq!((text(body.frame().await).as_str(), held(&store, ORDER)), (event, 1));
        sleep(secs(9)).await;
    }
    drop(sender);
    assert!(!body.is_end_stream());
    assert_eq!((text(body.frame().await).as_str(), held(&store, ORDER)), ("end", 0));
    assert!(body.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn the_layer_may_be_told() {
    let (layer, store) = layer();
    let (_sender, body) = sent(SizeHint::new());
    let _body = respond(layer.hold(HoldUntil::Response), pay(), Response::new(body)).await;
    assert_eq!(held(&store, ORDER), 0, "a stream that does not need its lock");

    let (layer, store) = self::layer();
    let full = Response::new(TestBody::from("done"));
    let mut body = respond(layer.hold(HoldUntil::Body), pay(), full).await.into_body();
    assert_eq!((held(&store, ORDER), body.size_hint().exact()), (1, Some(4)));
    let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((&last[..], held(&store, ORDER)), (&b"done"[..], 0));
    assert!(body.is_end_stream());
}

/// Nobody reads those.
#[tokio::test(start_paused = true)]
async fn what_has_no_body_is_free_with_the_response() {
    for (method, status, expected) in [
        (Method::HEAD, 200, 0),
        (Method::PUT, 200, 1),
        (Method::PUT, 101, 0),
        (Method::PUT, 204, 0),
        (Method::PUT, 304, 0),
    ] {
        for hold in [HoldUntil::Auto, HoldUntil::Body] {
            let (layer, store) = layer();
            let (_sender, body) = sent(SizeHint::new());
            let mut request = pay();
            *request.method_mut() = method.clone();
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            let layer = layer.hold(hold).methods([Method::HEAD, Method::PUT]);
            let answer = respond(layer, request, response).await;
            assert_eq!(answer.status(), status);
            assert_eq!(held(&store, ORDER), expected, "{method} {status} {hold:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_or_is_dropped_frees_the_lock() {
    let (layer, store) = layer();
    let (sender, body) = sent(SizeHint::with_exact(2));
    let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
    sender.send(data("ab")).unwrap();
    sender.send(Err("broken")).unwrap();
    // What was kept back would make it look complete.
    assert_eq!(text(body.frame().await), "error: broken");
    assert_eq!(held(&store, ORDER), 0);
    assert_eq!(text(body.frame().await), "end");

    let (layer, store) = self::layer();
    let (_sender, body) = sent(SizeHint::new());
    let response = respond(layer, pay(), Response::new(body)).await;
    assert_eq!(held(&store, ORDER), 1);
    drop(response);
    free_soon(&store, ORDER).await;
}

/// S-13: the body is gone before the store could give the lock to another task.
#[tokio::test(start_paused = true)]
async fn a_lease_lost_on_the_way_is_never_a_clean_end() {
    let (locks, peer, _) = two_clients();
    let lease = ms(500);
    let terms = waits_and_holds(Wait::None, lease);
    let dropped = Calls::default();
    let (sender, mut body) = sent(SizeHint::with_exact(2));
    let alive = Dropped(dropped.clone());
    body.look = Box::new(move || assert_eq!(alive.0.count(), 0));
    let start = Instant::now();
    let layer = order_layer(&locks).options(terms.clone());
    let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
    sender.send(data("ab")).unwrap();
    assert_eq!(text(body.frame().await), "error: the lock was lost while the body was sent");
    assert!(start.elapsed() < lease && dropped.count() == 1, "{:?}", start.elapsed());
    peer.mutex(ORDER).lock().await.unwrap().release().await.unwrap();

    // Let finish, it goes on, and then does not look complete all the same.
    let terms = terms.on_lost(OnLost::Finish);
    let (sender, body) = sent(SizeHint::new());
    let layer = order_layer(&locks).options(terms);
    let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
    sleep(lease * 2).await;
    sender.send(data("late")).unwrap();
    assert_eq!(text(body.frame().await), "late");
    drop(sender);
    assert_eq!(text(body.frame().await), "error: the lock was lost while the body was sent");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_cut_off() {
    let limit = secs(7);
    let (locks, _, store) = two_clients();
    let layer = || order_layer(&locks).wait(Wait::None).max_hold(limit);
    let (sender, body) = sent(SizeHint::with_exact(2));
    let (start, response) = (Instant::now(), Response::new(body));
    let mut body = respond(layer(), pay(), response).await.into_body();
    sender.send(data("ab")).unwrap();
    let cut = text(body.frame().await);
    assert_eq!(cut, "error: the body was not sent within the time for which it may hold the lock");
    assert!(start.elapsed().abs_diff(limit) < ms(5), "{:?}", start.elapsed());
    assert_eq!(held(&store, ORDER), 0);

    // No task polls a body whose client does not read.
    let (sender, body) = sent(SizeHint::new());
    let mut body = respond(layer(), pay(), Response::new(body)).await.into_body();
    sleep(limit - ms(5)).await;
    assert_eq!(held(&store, ORDER), 1);
    sleep(ms(10)).await;
    free_soon(&store, ORDER).await;
    sender.send(data("more")).unwrap();
    assert_eq!(text(body.frame().await), cut);
    assert_eq!(text(body.frame().await), "end");
}

#[tokio::test(start_paused = true)]
async fn a_slow_release_keeps_the_end_back_for_a_moment_only() {
    let store = Troubled::new(MemoryStore::new());
    store.of_releases(Trouble::Waits);
    let locks = LockClient::builder().store(store.clone()).unwrap();
    let (sender, body) = sent(SizeHint::new());
    let layer = order_layer(&locks).release_timeout(ms(80));
    let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
    drop(sender);
    let start = Instant::now();
    assert_eq!(text(body.frame().await), "end");
    let spare = start.elapsed().abs_diff(ms(80));
    assert!(spare <= ms(2), "{:?}", start.elapsed());
    store.set(Trouble::None);
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
    for (on_release_lost, status, end) in [
        (OnReleaseLost::Log, 200, "end"),
        (OnReleaseLost::Error, 500, "error: the lock was lost while the body was sent"),
    ] {
        let terms = options(Wait::None).on_release_lost(on_release_lost);
        let layer = || order_layer(&locks()).options(terms.clone());
        let answer = respond(layer(), pay(), Response::new(TestBody::from("done"))).await;
        assert_eq!(answer.status(), status);
        let (sender, body) = sent(SizeHint::new());
        let mut body = respond(layer(), pay(), Response::new(body)).await.into_body();
        drop(sender);
        assert_eq!(text(body.frame().await), end);
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
    for (item, seen) in [
        (None, "end"),
        (Some(Err("broken")), "error: broken"),
        (Some(Ok(Frame::trailers(HeaderMap::new()))), "trailers"),
    ] {
        let (layer, store) = layer();
        let was_held = Arc::default();
        let look = WasHeld(store.clone(), Arc::clone(&was_held));
        let (sender, mut body) = sent(SizeHint::new());
        body.look = Box::new(move || assert_eq!(*look.1.lock().unwrap(), None));
        let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
        item.into_iter().for_each(|item| sender.send(item).unwrap());
        drop(sender);
        assert_eq!(text(body.frame().await), seen);
        assert_eq!((*was_held.lock().unwrap(), held(&store, ORDER)), (Some(true), 0), "{seen}");
    }
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
    let mut body = respond(order_layer(&locks), pay(), Response::new(body)).await.into_body();
    sender.send(data("one")).unwrap();
    assert_eq!(text(body.frame().await), "one");
    drop(sender);
    assert_eq!(text(body.frame().await), "end");
    assert_eq!(entered.count(), 3, "at the first look, for the frame, and for the end");
}
