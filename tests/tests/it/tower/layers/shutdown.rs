//! A client that is shut down while bodies are sent under its locks.

use axum::extract::Path;
use futures_util::future::{Either, select};
use hyper::body::Incoming;

use crate::tower::layers::connection::{self, Client, asks, frame};
use crate::tower::layers::hold::{respond, sent};
use crate::tower::prelude::*;

/// Plenty for a body that is about to end, on a busy machine.
const GRACE: Duration = secs(2);

/// One stream that is silent, and one whose client does not read: neither ends by itself. A third ends within
/// the grace.
async fn bodies_end_with_the_grace(version: u8) {
    let (locks, peer, store) = two_clients();
    let layer = LockLayer::http().key("{path.what}").client(locks.clone()).wait(Wait::None);
    let is_closing = Arc::new(Notify::new());
    let ending = Arc::clone(&is_closing);
    let stream = async move |Path(what): Path<String>| {
        let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"begun"))]);
        let chunk = Bytes::from(vec![b'x'; 1 << 16]);
        let ending = Arc::clone(&ending);
        match &*what {
            "silence" => Body::from_stream(first.chain(stream::pending())),
            "brief" => Body::from_stream(first.chain(stream::once(async move {
                ending.notified().await;
                Ok(Bytes::from_static(b"done"))
            }))),
            _ => Body::from_stream(first.chain(stream::repeat_with(move || Ok(chunk.clone())))),
        }
    };
    let app = Router::new().route("/{what}", post(stream));
    let address = connection::serve(app.route_layer(layer.build().unwrap())).await;
    let mut bodies = Vec::new();
    for what in ["silence", "flood", "brief"] {
        let mut client = Client::connect(address, version).await;
        let mut body = client.send(asks(&format!("/{what}"))).await.into_body();
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), "begun");
        assert_eq!(held(&store, what), 1);
        bodies.push((client, body));
    }
    let (_client, mut brief) = bodies.pop().unwrap();
    let start = Instant::now();
    is_closing.notify_one();
    let (report, clean) = tokio::join!(locks.shutdown(GRACE), ends_cleanly(&mut brief));
    assert!(clean, "HTTP/{version}: a body may end by itself until then");
    assert!(start.elapsed() >= GRACE, "{:?}", start.elapsed());
    assert!(report.is_clean(), "HTTP/{version}: {report:?}");
    for what in ["silence", "flood"] {
        is_free(&peer, what, what).await;
    }
    for (_client, body) in &mut bodies {
        assert!(!ends_cleanly(body).await, "HTTP/{version}: a part does not look like the whole");
    }
}

/// Reads the rest of a body; false if that breaks off.
async fn ends_cleanly(body: &mut Incoming) -> bool {
    let ends = async {
        loop {
            match body.frame().await {
                Some(Ok(_)) => {}
                end => return end.is_none(),
            }
        }
    };
    timeout(PROMPTLY, ends).await.expect("it goes on for ever")
}

#[tokio::test]
async fn held_bodies_end_with_the_grace() {
    tokio::join!(bodies_end_with_the_grace(1), bodies_end_with_the_grace(2));
}

/// What is not enforced cuts nothing off, whether or not the server polls it then: the lock is given back with
/// the grace, and the body goes on to its end. It may still ask for the release.
#[tokio::test(start_paused = true)]
async fn bodies_of_shadow_mode_go_on_without_their_lock() {
    const TRIAL: &str = "[lock.policies.trial]\nkey = 'order:{path.id}'\nenforce = false";
    for polled in [true, false] {
        let (locks, peer) = clients(TRIAL);
        let (sender, body) = sent(SizeHint::new());
        let layer = order_layer(&locks).policy("trial");
        let mut body = respond(layer, pay(), Response::new(body)).await.into_body();
        let line = |text: &'static str| sender.send(Ok(Frame::data(text.into()))).unwrap();
        line("one");
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        assert!(peer.mutex(ORDER).try_lock().await.unwrap().is_none(), "it has its lock");
        let shutdown = async {
            let start = Instant::now();
            let report = locks.shutdown(GRACE).await;
            assert!(report.is_clean() && start.elapsed() >= GRACE, "{report:?}");
        };
        let waits = async { if polled { body.frame().await } else { pending().await } };
        if let Either::Right((frame, _)) = select(pin!(shutdown), pin!(waits)).await {
            panic!("it was cut off: {frame:?}");
        }
        is_free(&peer, ORDER, "after the grace").await;
        // Longer than it could have held its lock.
        sleep(secs(3600)).await;
        line("two");
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "two");
        drop(sender);
        assert!(body.frame().await.is_none(), "it ends as it would without a lock");
    }
    let (locks, _) = clients(TRIAL);
    let release = stream::once(async {
        sleep(2 * GRACE).await;
        HeldLock::current().unwrap().release().await.unwrap();
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"released")))
    });
    let body = Response::new(StreamBody::new(Box::pin(release)));
    let body = respond(order_layer(&locks).policy("trial"), pay(), body).await.into_body();
    let (report, body) = tokio::join!(locks.shutdown(GRACE), timeout(PROMPTLY, body.collect()));
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(body.expect("a hang").unwrap().to_bytes(), "released");
}
