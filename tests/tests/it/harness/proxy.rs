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
