//! Redis going away under requests: an answer in time, and never a handler without its lock.

use lock_tower::http::LockBodyError;

use crate::tower::prelude::*;

const ORDER: &str = "order:42";

async fn client(server: &RedisServer) -> LockClient {
    let patience = ms(500);
    LockClient::builder().store_patience(patience).connect(&server.url()).await.unwrap()
}

fn terms(lease: Duration) -> LockOptions {
    let wait = Wait::UpTo(secs(2));
    LockOptions::new().wait(wait).lease(Lease::Watchdog(lease))
}

#[tokio::test]
async fn killed_before_a_request_it_is_unavailable() {
    let server = RedisServer::start().await;
    let locks = client(&server).await;
    let calls = Calls::default();
    let layer = order_layer(&locks).options(terms(secs(1)));
    let service = layer.build().unwrap().layer(calls.service());
    assert_eq!(service.clone().oneshot(pay()).await.unwrap().status(), StatusCode::OK);
    server.kill();
    let answer = timeout(PROMPTLY, service.clone().oneshot(pay())).await.expect("a hang").unwrap();
    let answer = seen(answer).await;
    assert!(answer.starts_with("503 ") && answer.contains("lock-unavailable"), "{answer}");
    assert_eq!(calls.count(), 1, "nothing runs without its lock");
    server.restart().await;
    soon!("it goes on", service.clone().oneshot(pay()).await.unwrap().status() == StatusCode::OK);
}

/// The error that the operator reads in the log has the server's address and its causes; what a client is sent
/// has neither, in HTTP or in gRPC.
#[tokio::test]
async fn an_answer_shows_no_address() {
    let server = RedisServer::start().await;
    let locks = client(&server).await;
    let service = order_layer(&locks).options(terms(secs(1))).build().unwrap();
    let service = service.layer(Calls::default().service());
    server.kill();
    let log = Log::start();
    let port = server.port().to_string();
    let mut grpc = pay();
    grpc.headers_mut().insert("content-type", http::HeaderValue::from_static("application/grpc"));
    for request in [pay(), grpc] {
        let answer = service.clone().oneshot(request).await.unwrap();
        let headers = format!("{:?}", answer.headers());
        let answer = format!("{headers} {}", seen(answer).await);
        assert!(answer.contains("Locks are not available"), "{answer}");
        for secret in [port.as_str(), "127.0.0.1", "refused", "server at", ORDER] {
            assert!(!answer.contains(secret), "{secret} shows: {answer}");
        }
    }
    let lines = log.lines_with("request refused");
    assert_eq!(lines.len(), 2, "{}", log.text());
    // The connection breaks under the first request, and the second finds none.
    let at = format!("the server at 127.0.0.1:{port} ");
    for line in lines {
        let (_, error) = line.split_once(" error=").expect("the error");
        assert!(error.contains(&at), "{line}");
        assert_eq!(line.matches("server at").count(), 1, "told twice: {line}");
    }
}

/// Killed while the handler runs, it ends with the lease if that is over first, and gets through if not.
#[tokio::test]
async fn killed_during_a_request_it_is_lost_or_not_noticed() {
    for (lease, status) in [(ms(600), 500), (secs(30), 200)] {
        let server = RedisServer::start().await;
        let locks = client(&server).await;
        let (inside, ended) = (Arc::new(Notify::new()), Calls::default());
        let handler = service_fn({
            let (inside, ended) = (inside.clone(), ended.clone());
            move |_: Request<TestBody>| {
                let (inside, ended) = (inside.clone(), ended.clone());
                async move {
                    inside.notify_one();
                    sleep(secs(2)).await;
                    ended.add();
                    Ok::<_, Infallible>(Response::new(TestBody::from("done")))
                }
            }
        });
        let service = order_layer(&locks).options(terms(lease)).build().unwrap().layer(handler);
        let answer = lock_tests::spawn(service.oneshot(pay()));
        timeout(PROMPTLY, inside.notified()).await.unwrap();
        let start = Instant::now();
        server.kill();
        let answer = timeout(PROMPTLY, answer).await.expect("a hang").unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), status);
        // The release that nobody confirms holds it up for a moment only.
        let bound = if status == 500 { lease } else { secs(2) };
        assert!(start.elapsed() < patience(bound + secs(1)), "{:?}", start.elapsed());
        assert_eq!(ended.count(), usize::from(status == 200));
    }
}

#[tokio::test]
async fn killed_during_a_body_it_is_broken_off() {
    let server = RedisServer::start().await;
    let locks = client(&server).await;
    let lease = ms(600);
    let layer = order_layer(&locks).options(terms(lease)).build().unwrap();
    let service = layer.layer(service_fn(|_: Request<TestBody>| async {
        let frames = stream::unfold((), async |()| {
            sleep(ms(50)).await;
            let data = bytes::Bytes::from_static(b"x");
            Some((Ok::<_, Infallible>(http_body::Frame::data(data)), ()))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(frames))))
    }));
    let mut body = service.oneshot(pay()).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok() && server.client().exists(ORDER).await);
    server.kill();
    let start = Instant::now();
    let error = async {
        loop {
            match body.frame().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return error,
                None => panic!("a clean end"),
            }
        }
    };
    let error = timeout(PROMPTLY, error).await.expect("it goes on without its lock");
    assert!(matches!(error, LockBodyError::Lost(_)), "{error:?}");
    assert!(start.elapsed() < patience(lease + ms(300)), "{:?}", start.elapsed());
}
