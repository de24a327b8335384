//! Clients that connect to what a configuration says, and follow it.

use super::*;
use lock_runtime::error::StoreErrorKind;
use tokio::sync::Notify;

/// Connects to what a configuration says under `[lock]`.
async fn connect(text: &str) -> Result<LockClient, LockError> {
    LockClient::from_config(read(&format!("[lock]\n{text}")).unwrap()).await
}

#[tokio::test]
async fn a_client_connects_to_what_its_file_names() {
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let [one, two] = servers.each_ref().map(RedisServer::url);
    let quorum = format!("quorum = ['{one}', '{two}']\nrestart_guard = ");
    for (text, on) in [
        ("url = 'memory:'".to_owned(), 0),
        (format!("url = '{one}'"), 1),
        (format!("{quorum}'none'"), 2),
    ] {
        let client = connect(&format!("{text}\nnamespace = 'shop'")).await.unwrap();
        assert!(client.config().is_some());
        let guard = client.mutex("a").lock().await.unwrap();
        let mut found = 0;
        for server in &servers {
            found += usize::from(server.client().exists("shop:a").await);
        }
        assert_eq!(found, on, "{text}");
        guard.release().await.unwrap();
    }
    // The servers have just started.
    let guarded = connect(&format!("{quorum}'1h'")).await.unwrap();
    let error = guarded.mutex("a").try_lock().await.unwrap_err();
    assert!(format!("{error:?}").contains("counts only after 3600s"), "{error:?}");

    let error = connect("").await.unwrap_err().to_string();
    assert!(error.contains("the configuration names no server; give one as lock.url"), "{error}");
    for nobody in [
        "url = 'redis://127.0.0.1:1'",
        "sentinel = { master = 'm', nodes = ['redis://127.0.0.1:1'] }",
        "sentinel = { master = 'redis://:pw@m/2', nodes = ['redis://:pw@127.0.0.1:1'] }",
    ] {
        let error = connect(nobody).await.unwrap_err();
        let LockError::Store(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    }
}

/// `docs/operations.md`: a start that repeats what can get better by itself, and nothing else.
#[tokio::test]
async fn a_start_can_wait_for_its_server() {
    let has_failed = Notify::new();
    let start = async |text: &str| loop {
        match connect(text).await {
            Err(error) if error.is_retryable() => has_failed.notify_one(),
            outcome => return outcome,
        }
        tokio::time::sleep(ms(20)).await;
    };
    let server = RedisServer::start().await;
    let text = format!("url = '{}'", server.url());
    server.kill();
    let restart = async {
        has_failed.notified().await;
        server.restart().await;
    };
    let started = async { tokio::join!(start(&text), restart).0 };
    let connected = timeout(secs(20), started).await;
    let client = connected.expect("it does not connect to the server that is up again").unwrap();
    client.mutex("a").lock().await.unwrap().release().await.unwrap();

    let server = RedisServer::builder().password("right").start().await;
    let wrong = format!("url = '{}'", server.url_with_password(Some("wrong")));
    let error = start(&wrong).await.unwrap_err();
    assert!(error.to_string().contains("check both in the address"), "{error}");

    // The policies of a file, and one server that is not up yet.
    let config = read("[lock.policies.p]\nwait = 'none'").unwrap();
    let client = LockClient::builder().config(config).connect_lazy("redis://127.0.0.1:1").unwrap();
    assert!(client.policy("p").is_ok() && client.ready().await.is_err());
}

/// Options of the client that the file does not go with are found before anything is locked.
#[test]
fn a_configuration_has_to_go_with_the_client() {
    let fixed = LockOptions::new().lease(Lease::Fixed(secs(5)));
    let config = read("[lock.policies.p]\nmax_hold = '1s'").unwrap();
    let expected = "lock.policies.p: contradicts the options of the client: invalid lock options: max_hold 1s is \
                    shorter than the fixed lease of 5s; make the lease as short";
    let builder = LockClient::builder().options(fixed);
    let error = builder.clone().config(config.clone()).in_memory().unwrap_err();
    assert_eq!(error.to_string(), format!("invalid lock options: {expected}"));
    let client = builder.in_memory().unwrap();
    assert_eq!(client.reload(config).unwrap_err().to_string(), expected);
    assert!(client.config().is_none());
}

/// Times and certificates of the file are those of the client.
#[tokio::test]
async fn a_client_has_the_times_and_certificates_of_its_file() {
    let server = RedisServer::start().await;
    server.kill();
    let text = format!("[lock]\nurl = '{}'\nstore_patience = '50ms'", server.url());
    let config = read(&text).unwrap();
    let client = LockClient::builder().config(config).connect_lazy(&server.url()).unwrap();
    let acquire = timeout(secs(3), client.mutex("a").lock());
    acquire.await.expect("it waits for the default time").unwrap_err();

    let text = "[lock]\nurl = 'rediss://127.0.0.1:1'\ntls = { ca = '/nowhere/ca.pem' }";
    let error = LockClient::from_config(read(text).unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("lock.tls.ca: the file cannot be read: "), "{error}");
}

/// A reload moves no locks: what it says of their place is not in effect, and said to be so.
#[tokio::test]
async fn a_reload_with_another_place_is_told() {
    for (before, after) in [
        ("url = 'memory:'", "url = 'redis://a'"),
        (
            "quorum = ['redis://a']\nrestart_guard = 'none'",
            "quorum = ['redis://a']\nrestart_guard = '5m'",
        ),
    ] {
        let config = |text: &str| read(&format!("[lock]\n{text}")).unwrap();
        let client = LockClient::builder().config(config(before)).in_memory().unwrap();
        let log = Log::start_at(tracing::Level::WARN);
        client.reload(config(before)).unwrap();
        assert_eq!(log.text(), "");
        client.reload(config(after)).unwrap();
        assert_eq!(log.lines_with("another address or `restart_guard`").len(), 1, "{}", log.text());
    }
}
