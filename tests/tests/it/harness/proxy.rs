//! The proxy, mode by mode.

use super::*;

#[tokio::test]
async fn a_black_hole_swallows_old_and_new_connections_for_good() {
    let (server, proxy) = proxied().await;
    let mut spared = Wire::open(proxy.port()).await;
    let (mut old, mut news) = (Wire::open(proxy.port()).await, Wire::open(proxy.port()).await);
    assert_eq!(spared.ask("PING").await, "+PONG");
    assert_eq!(old.ask("PING").await, "+PONG");
    news.ask("SUBSCRIBE news").await;
    for _ in 0..2 {
        news.reply().await.unwrap();
    }
    while news.reply().await.unwrap() != ":1" {}

    proxy.black_hole();
    old.send("SET k v").await;
    server.client().cmd(&["PUBLISH", "news", "lost"]).await;
    let (mut new, mut idle) = (Wire::open(proxy.port()).await, Wire::open(proxy.port()).await);
    eventually(BOUND, "all accepted", async || proxy.accepted() == 5).await;
    new.send("PING").await;
    assert!(old.is_silent().await && new.is_silent().await && news.is_silent().await);
    assert!(!server.client().exists("k").await);
    drop(news);
    assert_eq!(server.pubsub_numsub("news").await, 1, "the close must be lost as well");

    proxy.pass();
    old.send("PING").await;
    new.send("PING").await;
    assert!(old.is_silent().await && new.is_silent().await, "bytes are missing in between");
    idle.send("PING").await;
    assert!(idle.is_silent().await, "the server has never heard of it");
    assert_eq!(spared.ask("PING").await, "+PONG", "this one has lost nothing");
    assert_eq!(Wire::open(proxy.port()).await.ask("PING").await, "+PONG");
}

#[tokio::test]
async fn a_stall_delivers_late() {
    let (server, proxy) = proxied().await;
    let mut wire = Wire::open(proxy.port()).await;
    assert_eq!(wire.ask("PING").await, "+PONG");
    proxy.stall();
    wire.send("SET k v").await;
    assert!(wire.is_silent().await);
    assert!(!server.client().exists("k").await);
    proxy.pass();
    assert_eq!(wire.reply().await.unwrap(), "+OK");
}

#[tokio::test]
async fn delays_only_the_direction_it_is_told_to() {
    let (server, proxy) = proxied().await;
    let mut wire = Wire::open(proxy.port()).await;
    let ages = Duration::from_secs(1000);
    proxy.delay_replies(ages);
    wire.send("SET k v").await;
    eventually(BOUND, "the request has come", async || server.client().exists("k").await).await;
    assert!(wire.is_silent().await);
    proxy.delay_requests(ages);
    let mut other = Wire::open(proxy.port()).await;
    other.send("DEL k").await;
    assert!(other.is_silent().await);
    assert!(server.client().exists("k").await);
}

#[tokio::test]
async fn a_reply_is_dropped_after_its_request_was_executed() {
    let (server, proxy) = proxied().await;
    let (mut one, mut two) = (Wire::open(proxy.port()).await, Wire::open(proxy.port()).await);
    proxy.drop_next_reply_to("INCR k");
    assert_eq!(one.ask("PING").await, "+PONG");
    assert_eq!(proxy.replies_dropped(), 0);
    assert_eq!(one.ask("INCR k").await, "", "the end in place of the reply");
    assert_eq!(server.client().get::<u64>(&["GET", "k"]).await, 1);
    assert_eq!(two.ask("INCR k").await, ":2", "once is once");
    assert_eq!(proxy.replies_dropped(), 1);
    proxy.drop_next_reply();
    assert_eq!(two.ask("INCR k").await, "");
    assert_eq!(server.client().get::<u64>(&["GET", "k"]).await, 3);
}

#[tokio::test]
async fn all_connections_are_reset_also_those_in_a_black_hole() {
    let (server, proxy) = proxied().await;
    let mut old = Wire::open(proxy.port()).await;
    old.ask("SUBSCRIBE news").await;
    proxy.black_hole();
    let mut lost = Wire::open(proxy.port()).await;
    eventually(BOUND, "both accepted", async || proxy.accepted() == 2).await;
    proxy.pass();
    proxy.reset_all();
    let mut seen = String::new();
    let ended = timeout(BOUND, old.0.read_to_string(&mut seen)).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let error = lost.reply().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    server.wait_for_subscribers("news", 0).await;
    assert_eq!(Wire::open(proxy.port()).await.ask("PING").await, "+PONG");
}

#[tokio::test]
async fn refuses_new_connections_and_keeps_old_ones() {
    let (_server, proxy) = proxied().await;
    let mut old = Wire::open(proxy.port()).await;
    assert_eq!(old.ask("PING").await, "+PONG");
    proxy.refuse();
    assert_eq!(old.ask("PING").await, "+PONG");
    // The reset may come before the client knows that it is connected, or after.
    if let Ok(mut new) = TcpStream::connect(("127.0.0.1", proxy.port())).await {
        let ended = timeout(BOUND, new.read_u8()).await.expect("the end");
        assert!(ended.is_err());
    }
    assert_eq!(proxy.accepted(), 2);
    proxy.pass();
    assert_eq!(Wire::open(proxy.port()).await.ask("PING").await, "+PONG");
}
