//! Redis going away under requests: an answer in time, and never a handler without its lock.

use crate::tower::prelude::*;

/// A server, and the layer of a client of it.
async fn world(lease: Duration) -> (RedisServer, HttpLockLayer) {
    let server = RedisServer::start().await;
    let builder = LockClient::builder().store_patience(ms(500));
    let locks = builder.connect(&server.url()).await.unwrap();
    let layer = order_layer(&locks).options(watched(lease).wait(secs(2)));
    (server, layer.build().unwrap())
}

/// The error that the operator reads in the log has the server's address and its causes; what a client is sent
/// has neither, in HTTP or in gRPC.
#[tokio::test]
async fn killed_before_a_request_it_is_unavailable() {
    let (server, layer) = world(secs(1)).await;
    let calls = Calls::default();
    let service = layer.layer(calls.service());
    assert_eq!(service.clone().oneshot(pay()).await.unwrap().status(), 200);
    server.kill();
    let log = Log::start();
    let port = server.port().to_string();
    let mut grpc = pay();
    grpc.headers_mut().insert("content-type", http::HeaderValue::from_static("application/grpc"));
    for (request, status) in [(pay(), 503), (grpc, 200)] {
        let answer = timeout(PROMPTLY, service.clone().oneshot(request)).await.expect("a hang");
        let answer = answer.unwrap();
        assert_eq!(answer.status(), status);
        let headers = format!("{:?}", answer.headers());
        let answer = headers + &seen(answer).await;
        assert!(answer.contains("Locks are not available"), "{answer}");
        for secret in [port.as_str(), "127.0.0.1", "refused", "server at", ORDER] {
            assert!(!answer.contains(secret), "{secret} shows: {answer}");
        }
    }
    assert_eq!(calls.count(), 1, "nothing runs without its lock");
    let lines = log.lines_with("request refused");
    assert_eq!(lines.len(), 2, "{}", log.text());
    for line in lines {
        let (_, error) = line.split_once(" error=").expect("the error");
        assert!(error.contains(&format!("the server at 127.0.0.1:{port} ")), "{line}");
        assert_eq!(line.matches("server at").count(), 1, "told twice: {line}");
    }
    server.restart().await;
    soon!("it goes on", service.clone().oneshot(pay()).await.unwrap().status() == 200);
}

/// Killed while the handler runs, it ends with the lease if that is over first, and gets through if not.
#[tokio::test]
async fn killed_during_a_request_it_is_lost_or_not_noticed() {
    for (lease, status) in [(ms(600), 500), (secs(30), 200)] {
        let (server, layer) = world(lease).await;
        let (inside, ended) = (Arc::new(Notify::new()), Calls::default());
        let parts = (inside.clone(), ended.clone());
        let handler = runs(move || {
            let (inside, ended) = parts.clone();
            async move {
                inside.notify_one();
                sleep(secs(2)).await;
                ended.add();
            }
        });
        let answer = lock_tests::spawn(layer.layer(handler).oneshot(pay()));
        timeout(PROMPTLY, inside.notified()).await.unwrap();
        let start = Instant::now();
        server.kill();
        let answer = timeout(PROMPTLY, answer).await.expect("a hang").unwrap().unwrap();
        assert_eq!(answer.status(), status);
        // The release that no server confirms holds it up for a moment only.
        let bound = if status == 500 { lease } else { secs(2) };
        assert!(start.elapsed() < patience(bound + secs(1)), "{:?}", start.elapsed());
        assert_eq!(ended.count(), usize::from(status == 200));
    }
}
