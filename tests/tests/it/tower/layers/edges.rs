//! Where two promises of the layer meet: shadow mode and a loss, an early release and `max_hold`, a
//! policy and what the code says.

use tracing::Instrument;

use crate::tower::prelude::*;

const STEP: Duration = ms(600);

/// Three chunks, with a step before the handler's end and before each. The lock is given back at a step,
/// if at any.
async fn is_whole(layer: HttpLockLayer, release_at: Option<usize>) -> bool {
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
    let answer = seen(send(&app, "POST", "/orders/42/pay").await).await;
    answer.starts_with("200 ") && answer.ends_with("\n123")
}

/// Shadow mode only tells: what it lost or held for too long is no reason to cut off a handler, or its
/// body. Nor is `max_hold` after the release.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_or_was_given_back_is_not_cut_off() {
    for terms in [
        "lease = '200ms'",
        "lease = '200ms'\non_lost = 'finish'",
        "lease = '200ms'\non_release_lost = 'error'",
        "lease = 'watchdog 200ms'\nmax_hold = '1s'",
        "max_hold = '1s'",
    ] {
        let (locks, _) =
            clients(&format!("[lock.policies.p]\nkey = 'k'\nenforce = false\n{terms}"));
        let layer = LockLayer::http().client(locks).policy("p").build().unwrap();
        assert!(is_whole(layer, None).await, "{terms}");
    }
    for step in [0, 1] {
        let layer = order_layer(&two_clients().0).max_hold(STEP * 5 / 2).build().unwrap();
        assert!(is_whole(layer, Some(step)).await, "{step}");
    }
}

/// S-10: each by itself is sound, so it is the layer that finds it, and not each of its requests.
#[tokio::test(start_paused = true)]
async fn what_contradicts_the_code_is_found_when_the_layer_is_built() {
    const SOUND: &str = "[lock.policies.p]\nkey = 'k'\n[[lock.routes]]\npath = '/'\npolicy = 'p'";
    let unsound = &SOUND.replace("key", "at_least = '1m'\nkey");
    let layers = |locks: &LockClient| {
        let builder = || LockLayer::http().client(locks.clone()).options(fixed(secs(9)));
        [builder().policy("p").build(), builder().routes().build()]
    };
    for refused in layers(&clients(unsound).0) {
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("at_least"), "{message}");
    }
    let locks = LockClient::builder().options(fixed(secs(9))).in_memory().unwrap();
    assert!(order_layer(&locks).max_hold(PROMPTLY).build().is_err());

    // A reload that brings it is refused, and so are defaults that contradict a layer without a policy.
    let (locks, _) = clients(SOUND);
    let layers = layers(&locks).map(Result::unwrap);
    let error = locks.reload(config(unsound)).unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
    for layer in &layers {
        assert_eq!(status(layer, request("POST", "/")).await, 200);
    }
    let (locks, _) = clients("[lock]");
    let plain = LockLayer::http().key("a").client(locks.clone()).options(fixed(secs(10)));
    let _plain = plain.build().unwrap();
    let error = locks.reload(config("[lock.defaults]\nat_least = '1m'")).unwrap_err().to_string();
    assert!(error.contains("at_least"), "{error}");
    locks.reload(config("[lock.defaults]\nwait = '2s'")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_finishes_keeps_its_span() {
    let log = Log::start_at(tracing::Level::DEBUG);
    let (locks, ..) = two_clients();
    let layer = order_layer(&locks).finish_on_disconnect(true).build().unwrap();
    let handler = runs(|| async { tracing::info!("at work") });
    let request = tracing::info_span!("request");
    layer.layer(handler).oneshot(pay()).instrument(request).await.unwrap();
    assert!(log.lines_with("at work")[0].contains("request"), "{}", log.text());
}
