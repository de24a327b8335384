//! A poll that lasts past the deadline is late although it completed (S-13): its value is dropped, and
//! the result is the loss, wherever a body runs under a lock.

use std::future::poll_fn;

use lock_runtime::__layer_v1::Protected;
use lock_tower::LockServiceError;
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

/// Counts how often a value was dropped.
#[derive(Default, Clone)]
struct Drops(Arc<AtomicUsize>);

struct Value(Drops);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drops {
    fn value(&self) -> Value {
        Value(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// What the two processes of one test know of each other.
#[derive(Default, Clone)]
struct Seen(Arc<AtomicBool>);

impl Seen {
    fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[distributed_lock(key = "late", lease = "300ms", client = client)]
async fn blocks_until(client: &LockClient, runs: Seen, other: Seen) -> Result<u32, LockError> {
    runs.set();
    // No await in here: what a body does that never yields.
    for _ in 0..1000 {
        if other.is_set() {
            break;
        }
        std::thread::sleep(ms(10));
    }
    Ok(5)
}

/// Another process holds the lock while the body blocks: the body's value is not to be believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_blocks_past_its_lease_is_lost() {
    let (server, client) = crate::prelude::world().await;
    let other = connect(&server).await;
    let (runs, they_have_it) = (Seen::default(), Seen::default());
    let call = lock_tests::spawn({
        let (runs, they_have_it) = (runs.clone(), they_have_it.clone());
        async move { blocks_until(&client, runs, they_have_it).await }
    });
    let soon = secs(5);
    lock_tests::eventually(soon, "the body runs", async || runs.is_set()).await;
    let theirs = other.mutex("late").lock().await.unwrap();
    they_have_it.set();
    let outcome = call.await.unwrap();
    assert!(outcome.as_ref().is_err_and(LockError::is_lost), "{outcome:?}");
    theirs.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_value_of_a_late_poll_is_dropped() {
    for on_lost in [OnLost::Cancel, OnLost::Finish] {
        let (client, blocks) = world();
        let lock = client.mutex("run").with(fixed(on_lost));
        let drops = Drops::default();
        let late = async {
            blocks();
            drops.value()
        };
        let guard = lock.lock().await.unwrap();
        assert!(guard.run(late).await.is_err_and(|error| error.is_lost()), "run, {on_lost:?}");
        drop(guard);
        let late = async {
            blocks();
            drops.value()
        };
        tokio::time::sleep(LEASE * 4).await;
        let (guard, outcome) = lock.lock().await.unwrap().run_owned(late).await;
        assert!(outcome.is_err_and(|error| error.is_lost()), "run_owned, {on_lost:?}");
        assert_eq!(drops.count(), 2);
        drop(guard);
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
    let drops = Drops::default();
    let value = drops.value();
    let mut run = pin!(guard.run(async {
        let _value = value;
        blocks();
        pending::<()>().await;
    }));
    let first = poll_fn(|cx| Poll::Ready(run.as_mut().poll(cx))).await;
    let Poll::Ready(Err(error)) = first else { panic!("{first:?}") };
    assert!(error.is_lost() && drops.count() == 1, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_late_poll_of_a_re_entry_is_late() {
    let (client, blocks) = world();
    let lock = client.mutex("nested").with(fixed(OnLost::Finish));
    let inner = client.mutex("nested").with(fixed(OnLost::Cancel));
    let outer = lock.lock().await.unwrap();
    let mut inside = None;
    let outcome = outer
        .run(async {
            let nested = inner.lock().await.unwrap();
            inside = Some(nested.run(async { blocks() }).await);
        })
        .await;
    assert!(inside.unwrap().is_err_and(|error| error.is_lost()));
    assert!(outcome.is_err_and(|error| error.is_lost()));
}

/// What is polled on after it was ready, as streams are: a late item is not handed out.
#[tokio::test(start_paused = true)]
async fn a_late_item_of_a_stream_is_dropped() {
    let (client, blocks) = world();
    let drops = Drops::default();
    let guard = client.mutex("items").with(fixed(OnLost::Cancel)).lock().await.unwrap();
    let mut items = pin!(Protected::new(drops.value()));
    let mut next = |late: bool| {
        let waker = std::task::Waker::noop();
        items.as_mut().poll_with(&guard, &mut std::task::Context::from_waker(waker), |_, _| {
            if late {
                blocks();
            }
            Poll::Ready(drops.value())
        })
    };
    assert!(matches!(next(false), Poll::Ready(Ok(_))));
    assert_eq!(drops.count(), 1);
    let late = next(true);
    assert!(matches!(late, Poll::Ready(Err(LockError::Lost { .. }))), "a late item went out");
    assert_eq!(drops.count(), 3, "the item, and what made it");
}

#[tokio::test(start_paused = true)]
async fn a_late_item_goes_out_where_the_body_is_to_finish() {
    let (client, blocks) = world();
    let guard = client.mutex("items").with(fixed(OnLost::Finish)).lock().await.unwrap();
    let mut items = pin!(Protected::new(()));
    let waker = std::task::Waker::noop();
    let polled =
        items.as_mut().poll_with(&guard, &mut std::task::Context::from_waker(waker), |_, _| {
            blocks();
            Poll::Ready(5)
        });
    assert!(matches!(polled, Poll::Ready(Ok(5))) && guard.is_lost());
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

#[tokio::test(start_paused = true)]
async fn a_late_call_of_a_service_is_lost() {
    let (client, blocks) = world();
    let layer = LockLayer::new(client, |_: &u64| Ok(Some(LockKey::new("service")?)))
        .options(fixed(OnLost::Cancel));
    let service = layer.layer(service_fn(move |late: u64| {
        let blocks = blocks.clone();
        async move {
            if late > 0 {
                blocks();
            }
            Ok::<_, Infallible>(5)
        }
    }));
    assert_eq!(service.clone().oneshot(0).await.unwrap(), 5);
    let late = service.oneshot(1).await;
    assert!(matches!(late, Err(LockServiceError::Lock(LockError::Lost { .. }))), "{late:?}");
}

type TestBody = Full<Bytes>;

fn http_layer(client: &LockClient) -> lock_tower::http::HttpLockLayer {
    let layer = LockLayer::http().key("order").client(client.clone());
    layer.options(fixed(OnLost::Cancel)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_blocks_past_its_lease_answers_500() {
    let (client, blocks) = world();
    let service = http_layer(&client).layer(service_fn(move |_: Request<TestBody>| {
        let blocks = blocks.clone();
        async move {
            blocks();
            Ok::<_, Infallible>(Response::new(TestBody::from("done")))
        }
    }));
    let answer = service.oneshot(Request::post("/pay").body(TestBody::default()).unwrap()).await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("lock-lost"), "{body:?}");
}

/// A frame that comes too late is not sent: the body ends with an error.
#[tokio::test(start_paused = true)]
async fn a_late_frame_is_not_sent() {
    let (client, blocks) = world();
    let service = http_layer(&client).layer(service_fn(move |_: Request<TestBody>| {
        let blocks = blocks.clone();
        async move {
            let frames = stream::unfold(0, move |n| {
                let blocks = blocks.clone();
                async move {
                    tokio::task::yield_now().await;
                    if n == 2 {
                        blocks();
                    }
                    let frame = Frame::data(Bytes::from(format!("{n}")));
                    Some((Ok::<_, Infallible>(frame), n + 1))
                }
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(frames))))
        }
    }));
    let answer = service.oneshot(Request::post("/pay").body(TestBody::default()).unwrap()).await;
    let mut body = answer.unwrap().into_body();
    let mut sent = Vec::new();
    let error = loop {
        match body.frame().await.expect("the body ended as if it were whole") {
            Ok(frame) => sent.push(frame.into_data().unwrap()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LockBodyError::Lost(LockError::Lost { .. })), "{error:?}");
    assert_eq!(sent, ["0", "1"]);
}
