//! A client that is shut down while bodies are sent under its locks.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body_util::BodyExt;
use lock_runtime::Wait;
use lock_tower::LockLayer;
use tokio::time::{Instant, sleep, timeout};

use crate::tower::layers::connection::{self, Client, frame, request};
use crate::tower::layers::world::{SOON, held, two_clients};

const GRACE: Duration = Duration::from_millis(400);

/// One stream that is silent, and one whose client does not read: neither ends by itself.
#[tokio::test]
async fn held_bodies_end_with_the_grace() {
    for version in [1, 2] {
        let (locks, peer, store) = two_clients();
        let layer = LockLayer::http().key("{path.what}").client(locks.clone()).wait(Wait::Never);
        let stream = async |what: axum::extract::Path<String>| {
            let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"begun"))]);
            let chunk = Bytes::from(vec![b'x'; 1 << 16]);
            let flood = stream::repeat_with(move || Ok(chunk.clone()));
            match &**what {
                "silence" => Body::from_stream(first.chain(stream::pending())),
                "brief" => Body::from_stream(first.chain(stream::once(async {
                    sleep(GRACE / 4).await;
                    Ok(Bytes::from_static(b"done"))
                }))),
                _ => Body::from_stream(first.chain(flood)),
            }
        };
        let app = Router::new().route("/{what}", post(stream));
        let address = connection::serve(app.route_layer(layer.build().unwrap())).await;
        let mut bodies = Vec::new();
        for what in ["silence", "flood", "brief"] {
            let mut client = Client::connect(address, version).await;
            let mut body = client.send(request(&format!("/{what}"))).await.into_body();
            assert_eq!(frame(&mut body).await.unwrap().unwrap(), "begun");
            assert_eq!(held(&store, what), 1);
            bodies.push((client, body));
        }
        let start = Instant::now();
        let report = locks.shutdown(GRACE).await;
        let took = start.elapsed();
        assert!(took >= GRACE, "{took:?}: a body may end by itself until then");
        assert!(report.is_clean(), "HTTP/{version}: {report:?}");
        for what in ["silence", "flood"] {
            assert_eq!(held(&store, what), 0, "HTTP/{version}: {what}");
            let next = peer.mutex(what).try_lock().await.unwrap();
            next.expect("free").release().await.unwrap();
        }
        for (at, (_client, body)) in bodies.iter_mut().enumerate() {
            let ends = async {
                loop {
                    match body.frame().await {
                        Some(Ok(_)) => {}
                        end => return end.is_none(),
                    }
                }
            };
            let clean = timeout(SOON, ends).await.expect("it goes on for ever");
            assert_eq!(clean, at == 2, "HTTP/{version}: a part does not look like the whole");
        }
    }
}

/// A shutdown waits no longer than it has to.
#[tokio::test(start_paused = true)]
async fn a_shutdown_without_bodies_takes_no_longer() {
    let (locks, ..) = two_clients();
    let start = Instant::now();
    assert!(locks.shutdown(GRACE).await.is_clean());
    assert!(start.elapsed() < GRACE, "{:?}", start.elapsed());
}
