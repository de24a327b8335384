//! What a user reads when a Redis server, or what stands in its place, does not serve locks.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_server_is_not_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    lock_tests::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.write_all(answer).await;
        }
    });
    let (kind, text) = kind_and_sentence(LockClient::connect(&url).await.unwrap_err());
    assert_eq!(kind, StoreErrorKind::Config, "{text}");
    assert!(text.contains("is not Redis; check host and port"), "{text}");
}

/// S-33: each wrong address or password is one clear error, at once: which server it is, what is wrong, and what to do. It tells no
/// cause twice, and shows no password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_start_fails_at_once_and_clearly() {
    use StoreErrorKind::{Config, Denied, Unavailable};
    let server = RedisServer::builder().password("right-one").start().await;
    let at = format!("the server at 127.0.0.1:{}", server.port());
    let nowhere = "the server at 127.0.0.1:1 cannot be reached; check the address and that it runs";
    let password = "refuses the user name or password; check both in the address, where special \
                    characters are percent-encoded, such as %40 for @";
    let database = "has no database 99; write a lower number behind the address, or raise the \
                    server's setting `databases`";
    let memory = "the address \"memory:\" is for the `lock.url` of a configuration; for locks of \
                  this process alone, make the client with `LockClient::in_memory()`";
    for (url, kind, says) in [
        (server.url_with_password(Some("wrong-one")), Denied, format!("{at} {password}")),
        (server.url_with_password(None), Denied, "password".to_owned()),
        (format!("{}/99", server.url()), Config, format!("{at} {database}")),
        ("redis://127.0.0.1:1".to_owned(), Unavailable, nowhere.to_owned()),
        ("unix:///no/such/socket".to_owned(), Unavailable, "cannot be reached".to_owned()),
        ("http://user:wrong-one@host".to_owned(), Config, "redis://host:port".to_owned()),
        ("nonsense".to_owned(), Config, "cannot be used".to_owned()),
        ("redis://:wrong-one#x@localhost".to_owned(), Config, "cannot be used".to_owned()),
        ("memory:".to_owned(), Config, memory.to_owned()),
    ] {
        let start = Instant::now();
        let error = LockClient::connect(&url).await.unwrap_err();
        assert!(start.elapsed() < patience(secs(3)), "{url}: {:?}", start.elapsed());
        assert_eq!(store_kind(&error), Some(kind), "{url}: {error:?}");
        assert!(error.to_string().contains(&says), "{url}: {error}");
        let first: &(dyn Error + 'static) = &error;
        let chain = std::iter::successors(Some(first), |&error| error.source());
        let texts: Vec<_> = chain.map(ToString::to_string).collect();
        for pair in texts.windows(2) {
            assert!(!pair[0].contains(&pair[1]) && !pair[1].contains(&pair[0]), "{texts:?}");
        }
        let everything = format!("{error:?} {}", texts.join(": "));
        assert!(!everything.contains("wrong-one"), "the password shows: {everything}");
    }
    connect(&server).await.mutex("ok").lock().await.unwrap().release().await.unwrap();
}

/// A server that is full and one that hangs, while the client is connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_message_of_a_call_names_the_server_and_the_remedy() {
    let server = RedisServer::start().await;
    let limit = ms(200);
    let client = LockClient::builder().command_timeout(limit).store_patience(ms(300));
    let client = client.connect(&server.url()).await.unwrap();
    server.client().cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = client.mutex("a").lock().await.unwrap_err();
    let expected = format!(
        "the server at 127.0.0.1:{} is out of memory and grants no locks; raise its `maxmemory`, or delete other data",
        server.port()
    );
    assert_eq!(error.to_string(), expected);
    server.client().cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
    server.pause();
    let error = client.ready().await.unwrap_err();
    let expected = format!(
        "the server at 127.0.0.1:{} did not answer within 200ms; the command may or may not have run",
        server.port()
    );
    assert_eq!(error.to_string(), expected);
    let error = client.mutex("b").lock().await.unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{}", server.port())), "{error}");
    server.resume();
}

#[tokio::test]
async fn a_dead_server_is_warned_of_once() {
    let server = RedisServer::start().await;
    let log = Log::start_at(tracing::Level::DEBUG);
    let _client = connect(&server).await;
    server.kill();
    let attempts = || log.lines_with("cannot connect to the lock store yet");
    soon!("it tries", attempts().len() > 8);
    let warnings = attempts().into_iter().filter(|line| line.contains("WARN")).count();
    assert_eq!(warnings, 1, "of {}", attempts().len());
}

/// Where nothing was held, no task waits for a release; where something was, its end is news.
#[tokio::test]
async fn a_release_of_nothing_is_no_warning() {
    let (_server, proxy) = proxied().await;
    let log = Log::start_at(tracing::Level::DEBUG);
    let client = LockClient::builder().command_timeout(ms(100)).store_patience(ms(300));
    let client = client.connect(&proxy.url()).await.unwrap();
    let options = fixed(ms(400));
    let guard = client.mutex("held").with(options.clone()).lock().await.unwrap();
    proxy.black_hole();
    drop(guard);
    client.mutex("never:held").with(options).lock().await.unwrap_err();
    let given_up = |name| {
        let mut lines = log.lines_with("release given up");
        lines.retain(|line| line.contains(name));
        lines
    };
    let both = async || !given_up("\"held\"").is_empty() && !given_up("\"never:held\"").is_empty();
    eventually(SOON, "both are given up", both).await;
    assert!(given_up("\"held\"").iter().all(|line| line.contains("WARN")));
    let of_nothing = given_up("\"never:held\"");
    assert!(of_nothing.iter().all(|line| line.contains("DEBUG")), "{of_nothing:?}");
}

/// An evicted lock is a lost one. A user who may not ask is not told, and not refused.
#[tokio::test]
async fn eviction_is_warned_of() {
    for (policy, warned) in [("allkeys-lru", 1), ("volatile-ttl", 1), ("noeviction", 0)] {
        let server = RedisServer::builder().arg("--maxmemory-policy", policy).start().await;
        let log = Log::start_at(tracing::Level::DEBUG);
        let client = connect(&server).await;
        client.mutex("a").lock().await.unwrap().release().await.unwrap();
        let warnings = log.lines_with("maxmemory-policy");
        assert_eq!(warnings.len(), warned, "{policy}: {warnings:?}");
        assert!(warnings.iter().all(|line| line.contains("WARN") && line.contains(policy)));
    }
    let server = RedisServer::builder().arg("--maxmemory-policy", "allkeys-lru").start().await;
    let user = "ACL SETUSER brief on >pw ~* &* +@all -info -config";
    server.client().cmd(&user.split(' ').collect::<Vec<_>>()).await;
    let url = format!("redis://brief:pw@127.0.0.1:{}", server.port());
    let client = LockClient::connect(&url).await.unwrap();
    client.mutex("a").lock().await.unwrap().release().await.unwrap();
}

test_with!(a_silent_idle_connection_is_replaced, far_world(), async |(_server, proxy, client)| {
    client.mutex("a").lock().await.unwrap().release().await.unwrap();
    let connections = proxy.accepted();
    proxy.black_hole();
    // 15 s of silence, a second for the answer, and a busy machine.
    let anew = async || proxy.accepted() > connections;
    eventually(ms(25_000), "it connects anew", anew).await;
});
