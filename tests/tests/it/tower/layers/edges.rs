//! Where two promises of the layer meet: shadow mode and a loss, an early release and `max_hold`, a
//! policy and what the code says.

use tracing::Instrument;

use crate::tower::layers::policies::config;
use crate::tower::prelude::*;

const STEP: Duration = ms(600);

/// Three chunks, with a step before the handler's end and before each. The lock is given back at a step,
/// if at any.
async fn answer_of(layer: HttpLockLayer, release_at: Option<usize>) -> String {
    let release = move |step| async move {
        sleep(STEP).await;
        if release_at == Some(step) {
            HeldLock::current().unwrap().release().await.unwrap();
        }
    };
    let handler = move || async move {
        release(0).await;
        Body::from_stream(stream::unfold(1, move |step| async move {
            release(step).await;
            (step <= 3).then(|| (Ok::<_, Infallible>(step.to_string()), step + 1))
        }))
    };
    let app = Router::new().route("/orders/{id}/pay", post(handler)).route_layer(layer);
    let request = Request::post("/orders/42/pay").body(Body::empty()).unwrap();
    let answer = async { seen(app.oneshot(request).await.unwrap()).await };
    timeout(2 * PROMPTLY, answer).await.expect("a hang")
}

/// Shadow mode only tells: what it lost or held for too long is no reason to cut off a handler, or its
/// body.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_is_not_cut_off() {
    for terms in [
        "lease = '200ms'",
        "lease = '200ms'\non_lost = 'finish'",
        "lease = '200ms'\non_release_lost = 'error'",
        "lease = 'watchdog 200ms'\nmax_hold = '1s'",
        "max_hold = '1s'",
    ] {
        let text = format!("[lock.policies.p]\nkey = 'k'\nenforce = false\n{terms}");
        let locks = LockClient::builder().config(config(&text)).in_memory().unwrap();
        let layer = LockLayer::http().client(locks).policy("p").build().unwrap();
        let answer = answer_of(layer, None).await;
        assert!(answer.starts_with("200 ") && answer.ends_with("\n123"), "{terms}: {answer}");
    }
}

/// `max_hold` is about the lock, and there is none any more.
#[tokio::test(start_paused = true)]
async fn what_was_given_back_early_is_not_cut_off() {
    for step in [0, 1] {
        let (locks, ..) = two_clients();
        let layer = order_layer(&locks).max_hold(STEP * 5 / 2).build().unwrap();
        let answer = answer_of(layer, Some(step)).await;
        assert!(answer.starts_with("200 ") && answer.ends_with("\n123"), "{step}: {answer}");
    }
}

/// S-10: each by itself is sound, so it is the layer that finds it, and not each of its requests.
#[tokio::test(start_paused = true)]
async fn what_contradicts_the_code_is_found_when_the_layer_is_built() {
    const SOUND: &str = "[lock.policies.p]\nkey = 'k'\n[[lock.routes]]\npath = '/'\npolicy = 'p'";
    let unsound = &SOUND.replace("key", "at_least = '1m'\nkey");
    let options = LockOptions::new().lease(Lease::Fixed(secs(9)));
    let client = |text: &str| LockClient::builder().config(config(text)).in_memory().unwrap();
    let layers = |locks: &LockClient| {
        let builder = || LockLayer::http().client(locks.clone()).options(options.clone());
        [builder().policy("p").build(), builder().routes().build()]
    };
    for refused in layers(&client(unsound)) {
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("at_least"), "{message}");
    }
    let options = waits_and_holds(Wait::None, secs(9));
    let locks = LockClient::builder().options(options).in_memory().unwrap();
    assert!(order_layer(&locks).max_hold(PROMPTLY).build().is_err());

    // A reload that brings it is refused.
    let locks = client(SOUND);
    let layers = layers(&locks).map(Result::unwrap);
    let error = locks.reload(config(unsound)).unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
    for layer in &layers {
        assert_eq!(status(layer, request("POST", "/")).await, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_client_no_method_passes_that_the_code_locks() {
    let builder = || LockLayer::http().policy("p");
    let named = builder().methods([Method::GET]).build().unwrap();
    let shared = builder().share_safe_methods(true).build().unwrap();
    for layer in [named, shared] {
        assert_eq!(status(&layer, request("GET", "/")).await, 500);
        assert_eq!(status(&layer, request("OPTIONS", "/")).await, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_finishes_keeps_its_span() {
    let log = Log::start_at(tracing::Level::DEBUG);
    let (locks, ..) = two_clients();
    let layer = order_layer(&locks).finish_on_disconnect(true).build().unwrap();
    let handler = tower::service_fn(|_: Request<TestBody>| async {
        tracing::info!("at work");
        Ok::<_, Infallible>(http::Response::new(TestBody::default()))
    });
    let request = tracing::info_span!("request");
    layer.layer(handler).oneshot(pay()).instrument(request).await.unwrap();
    let text = log.text();
    let line = text.lines().find(|line| line.ends_with("at work")).expect("a line");
    assert!(line.contains("request"), "{line}");
}
