//! A poll that lasts past the deadline is late although it completed (S-13): its value is dropped, and
//! the result is the loss, wherever a body runs under a lock.

use lock_runtime::__layer_v1::Protected;
use lock_tower::http::LockBodyError;

use crate::prelude::*;
use crate::tower::http::*;

const LEASE: Duration = ms(300);

fn fixed(on_lost: OnLost) -> LockOptions {
    LockOptions::new().lease(Lease::Fixed(LEASE)).on_lost(on_lost)
}

/// A client, and what makes a poll last for two leases.
fn world() -> (LockClient, impl Fn() + Clone + Send + Sync) {
    let clock = Clock::tokio();
    let client = LockClient::builder().clock(clock.clone()).in_memory().unwrap();
    (client, move || clock.advance(LEASE * 2))
}

/// Counts by its clones that are left.
fn value() -> (Arc<()>, impl Fn() -> usize) {
    let value = Arc::new(());
    let counted = Arc::downgrade(&value);
    (value, move || counted.strong_count())
}

#[tokio::test(start_paused = true)]
async fn the_value_of_a_late_poll_is_dropped() {
    for (on_lost, is_owned) in [
        (OnLost::Cancel, false),
        (OnLost::Cancel, true),
        (OnLost::Finish, false),
        (OnLost::Finish, true),
    ] {
        let (client, blocks) = world();
        let guard = client.mutex("run").with(fixed(on_lost)).lock().await.unwrap();
        let (value, left) = value();
        let late = async move {
            blocks();
            value
        };
        let outcome = match is_owned {
            true => guard.run_owned(late).await.1,
            false => guard.run(late).await,
        };
        assert!(outcome.is_err_and(|error| error.is_lost()), "{on_lost:?}, owned: {is_owned}");
        assert_eq!(left(), 0);
    }
}

/// The code under a re-entry goes on in the same poll, so it must learn of the loss from the re-entry.
#[tokio::test(start_paused = true)]
async fn a_re_entry_reports_a_loss_in_the_poll_that_is_late() {
    let (client, blocks) = world();
    let lock = client.mutex("nested").lease(Lease::Watchdog(LEASE));
    let mut released = Ok(());
    let guard = lock.lock().await.unwrap();
    let outer = guard.run(async {
        let nested = lock.lock().await.unwrap();
        blocks();
        released = nested.release().await;
    });
    assert!(outer.await.unwrap_err().is_lost());
    assert!(released.unwrap_err().is_lost(), "the release");
    drop(guard);

    let mut entered = Ok(());
    let guard = lock.lock().await.unwrap();
    let outer = guard.run(async {
        blocks();
        entered = lock.lock().await.map(drop);
    });
    assert!(outer.await.unwrap_err().is_lost());
    assert!(entered.unwrap_err().is_lost(), "the acquire");
}

#[tokio::test(start_paused = true)]
async fn a_late_poll_that_waits_on_is_the_last() {
    let (client, blocks) = world();
    let guard = client.mutex("waits").with(fixed(OnLost::Cancel)).lock().await.unwrap();
    let (value, left) = value();
    let mut run = pin!(guard.run(async {
        let _value = value;
        blocks();
        pending::<()>().await;
    }));
    let first = poll!(&mut run);
    let Poll::Ready(Err(error)) = first else { panic!("{first:?}") };
    assert!(error.is_lost() && left() == 0, "{error}");
}

/// What is polled on after it was ready, as streams are: a late item is not handed out.
#[tokio::test(start_paused = true)]
async fn a_late_item_of_a_stream_is_dropped() {
    let (client, blocks) = world();
    let ((makes, made_by), (item, items)) = (value(), value());
    let guard = client.mutex("items").with(fixed(OnLost::Cancel)).lock().await.unwrap();
    let mut stream = pin!(Protected::new(makes));
    let mut next = |late: bool| {
        let mut context = Context::from_waker(std::task::Waker::noop());
        stream.as_mut().poll_with(&guard, &mut context, |_, _| {
            if late {
                blocks();
            }
            Poll::Ready(Arc::clone(&item))
        })
    };
    assert!(matches!(next(false), Poll::Ready(Ok(_))));
    assert_eq!((made_by(), items()), (1, 1));
    let late = next(true);
    assert!(matches!(late, Poll::Ready(Err(LockError::Lost { .. }))), "a late item went out");
    assert_eq!((made_by(), items()), (0, 1), "the item, and what made it");
}

#[distributed_lock(key = "late", lease = "300ms", client = client)]
async fn cancelled(client: &LockClient, late: impl Fn()) -> Result<u32, LockError> {
    late();
    Ok(5)
}

#[distributed_lock(key = "late", lease = "300ms", client = client, guard = hold)]
async fn seeing(client: &LockClient, late: impl Fn()) -> Result<u64, LockError> {
    late();
    Ok(hold.token().get())
}

#[distributed_lock(key = "late", lease = "300ms", client = client, on_lost = finish)]
async fn finishes(client: &LockClient, late: impl Fn()) -> Result<u32, LockError> {
    late();
    Ok(5)
}

#[distributed_lock(key = "late", policy = "trial", client = client)]
async fn not_enforced(client: &LockClient, late: impl Fn()) -> Result<u32, LockError> {
    late();
    Ok(5)
}

#[tokio::test(start_paused = true)]
async fn an_annotated_function_that_is_late_is_lost() {
    let (client, blocks) = world();
    let blocks = || blocks.clone();
    assert!(cancelled(&client, blocks()).await.unwrap_err().is_lost());
    tokio::time::sleep(LEASE * 4).await;
    assert!(seeing(&client, blocks()).await.unwrap_err().is_lost());
    tokio::time::sleep(LEASE * 4).await;
    assert!(finishes(&client, blocks()).await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_keeps_its_value() {
    let text = "[lock.policies]\ntrial = { enforce = false, lease = '300ms' }";
    let config = LockConfig::from_deserializer(toml::Deserializer::parse(text).unwrap()).unwrap();
    let clock = Clock::tokio();
    let client = LockClient::builder().clock(clock.clone()).config(config).in_memory().unwrap();
    assert_eq!(not_enforced(&client, || clock.advance(LEASE * 2)).await.unwrap(), 5);
}

type Any = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// What the layer makes of the answer of a handler.
async fn answer(
    client: LockClient,
    body: impl Fn() -> Any + Clone + Send + 'static,
) -> Response<LockBody<Any>> {
    let layer = LockLayer::http().key("order").client(client).options(fixed(OnLost::Cancel));
    let service = layer.build().unwrap().layer(service_fn(move |_: Request<Full<Bytes>>| {
        let body = body.clone();
        async move { Ok::<_, Infallible>(Response::new(body())) }
    }));
    service.oneshot(Request::post("/pay").body(Full::default()).unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_blocks_past_its_lease_answers_500() {
    let (client, blocks) = world();
    let late = move || {
        blocks();
        Full::<Bytes>::from("done").boxed_unsync()
    };
    let answer = answer(client, late).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("lock-lost"), "{body:?}");
}

/// A frame that comes too late is not sent: the body ends with an error.
#[tokio::test(start_paused = true)]
async fn a_late_frame_is_not_sent() {
    let (client, blocks) = world();
    let frames = move || {
        let blocks = blocks.clone();
        let frame = move |n: u32| {
            if n == 2 {
                blocks();
            }
            Ok::<_, Infallible>(Frame::data(Bytes::from(n.to_string())))
        };
        StreamBody::new(stream::iter(0..).map(frame)).boxed_unsync()
    };
    let mut body = answer(client, frames).await.into_body();
    for sent in ["0", "1"] {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), sent);
    }
    let error = body.frame().await.expect("the body ended as if it were whole").unwrap_err();
    assert!(matches!(error, LockBodyError::Lost(LockError::Lost { .. })), "{error:?}");
}
