//! Bodies on real connections, HTTP/1.1 and HTTP/2, to a real client: what it sees of their end, and
//! when the next request may come.

use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::stream::Stream;
use http::header::CONTENT_LENGTH;

use crate::tower::layers::connection::{self, Client, asks, frame};
use crate::tower::prelude::*;

/// The route's answer.
#[derive(Clone, Copy)]
enum Answer {
    Json,
    /// Nothing, and 200.
    Empty,
    /// Nothing, and 204.
    NoContent,
    /// Two chunks, of a length that is announced.
    Announced,
    /// Three events, 20 ms apart.
    Events,
    /// One event, and then nothing for an hour.
    Silence,
    /// More than any buffer takes.
    Flood,
}

fn events(count: usize, pause: Duration) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::iter(0..count).then(move |n| async move {
        if n > 0 {
            sleep(pause).await;
        }
        Ok(Event::default().data(n.to_string()))
    })
}

/// A connection of that version to a server that answers so.
async fn client(layer: HttpLockLayerBuilder, answer: Answer, version: u8) -> Client {
    let handler = move || async move {
        match answer {
            Answer::Json => axum::Json([42]).into_response(),
            Answer::Empty => ().into_response(),
            Answer::NoContent => StatusCode::NO_CONTENT.into_response(),
            Answer::Announced => {
                let chunks = stream::iter(["ab", "cd"]).then(async |chunk| {
                    sleep(ms(1)).await;
                    Ok::<_, Infallible>(chunk)
                });
                ([(CONTENT_LENGTH, "4")], Body::from_stream(chunks)).into_response()
            }
            Answer::Events => Sse::new(events(3, ms(20))).into_response(),
            Answer::Silence => Sse::new(events(2, secs(3600))).into_response(),
            Answer::Flood => {
                let chunk = Bytes::from(vec![b'x'; 1 << 16]);
                let flood = stream::repeat_with(move || Ok::<_, Infallible>(chunk.clone()));
                Body::from_stream(flood).into_response()
            }
        }
    };
    let app = Router::new().route("/orders/{id}/pay", post(handler).head(handler));
    let app = app.route_layer(layer.build().unwrap());
    Client::connect(connection::serve(app).await, version).await
}

fn layer(locks: &LockClient) -> HttpLockLayerBuilder {
    routed_layer(locks).wait(Wait::None)
}

const PAY: &str = "/orders/42/pay";

/// A lease that is lost and a reader that is too slow: a connection that is cut or a stream that is reset, and no end that
/// looks like one.
#[tokio::test]
async fn a_body_without_its_lock_breaks_the_connection() {
    for version in [1, 2] {
        let (locks, _, _) = two_clients();
        let brief = layer(&locks).options(waits_and_holds(Wait::None, ms(200)));
        let mut silent = client(brief, Answer::Silence, version).await;
        let mut body = silent.send(asks(PAY)).await.into_body();
        assert_eq!(frame(&mut body).await.unwrap().unwrap(), "data: 0\n\n");
        let next = frame(&mut body).await;
        assert!(matches!(next, Some(Err(_))), "HTTP/{version}: a clean end: {next:?}");

        let (locks, peer, store) = two_clients();
        let mut flood = client(layer(&locks).max_hold(ms(300)), Answer::Flood, version).await;
        let mut body = flood.send(asks(PAY)).await.into_body();
        assert!(frame(&mut body).await.unwrap().is_ok());
        assert_eq!(held(&store, ORDER), 1);
        // The client reads no more, and the server therefore polls no more.
        free_soon(&store, ORDER).await;
        is_free(&peer, ORDER, "cut off").await;
        let cut = async { while body.frame().await.expect("no clean end").is_ok() {} };
        timeout(PROMPTLY, cut).await.unwrap();
    }
}

/// A client behind a load balancer, over Redis: whatever its answers are, the next request finds the
/// lock free, at whichever process it arrives. Every other request goes to a process that is closer to
/// Redis than the one before, and would overtake a release that no task waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequential_client_never_meets_itself() {
    let server = RedisServer::start().await;
    let far = Proxy::start(server.port()).await;
    far.delay_requests(ms(2));
    let answers = [
        (Answer::Json, "[42]"),
        (Answer::Empty, ""),
        (Answer::NoContent, ""),
        (Answer::Announced, "abcd"),
        (Answer::Events, "data: 0\n\ndata: 1\n\ndata: 2\n\n"),
    ];
    let mut clients = Vec::new();
    for (answer, text) in answers {
        for version in [1, 2] {
            let locks = connect(&far).await;
            let layer = layer(&locks).methods([Method::POST, Method::HEAD]);
            clients.push((client(layer, answer, version).await, text));
        }
    }
    let locks = connect(&server).await;
    let mut near = client(layer(&locks), Answer::Json, 1).await;
    for round in 0..30 {
        for (n, (client, text)) in clients.iter_mut().enumerate() {
            let (mut request, mut expected) = (asks(PAY), *text);
            // One in three, and each of them in turn.
            if (round + n) % 3 == 0 {
                (*request.method_mut(), expected) = (Method::HEAD, "");
            }
            let answer = client.send(request).await;
            assert!(answer.status().is_success(), "{} in round {round} at {n}", answer.status());
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), expected);
            let next = near.send(asks(PAY)).await;
            assert_eq!(next.status(), 200, "after round {round} at {n}");
            next.into_body().collect().await.unwrap();
        }
    }
    assert!(!server.client().exists(ORDER).await);
}
