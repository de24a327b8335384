//! How a quorum (S-29) starts where servers refuse it, and over TLS.

use lock_tests::ScriptedServer;
use lock_tests::scripted_server::Scripted;

use crate::prelude::*;
use crate::support::authority::Authority;
use crate::support::quorum::{on, quorum_of, servers};

/// S-33: one server that refuses the password is an error, also when the others are a majority and
/// quicker; and one sentence that does not show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_that_refuses_the_password_is_said_at_once() {
    let servers = [RedisServer::start().await, RedisServer::start().await];
    let locked = RedisServer::builder().password("right-one").start().await;
    let proxy = Proxy::start(locked.port()).await;
    proxy.delay(ms(50));
    let [one, two] = servers.each_ref().map(RedisServer::url);
    let late = proxy.url();
    for refused in [
        locked.url_with_password(Some("wrong-one")),
        locked.url_with_password(None),
        late.replace("//", "//:wrong-one@"),
    ] {
        for place in 0..3 {
            let mut urls = vec![one.clone(), two.clone()];
            urls.insert(place, refused.clone());
            let start = Instant::now();
            let quorum = LockClient::builder().connect_quorum(&urls, RestartGuard::Off);
            let error = quorum.await.map(drop).unwrap_err();
            assert!(start.elapsed() < patience(secs(1)), "{:?}", start.elapsed());
            let shown = format!("{error:?}");
            let (kind, sentence) = kind_and_sentence(error);
            assert_eq!(kind, StoreErrorKind::Denied, "{urls:?}: {sentence}");
            assert!(sentence.contains("password"), "{sentence}");
            assert!(!shown.contains("wrong-one"), "{shown}");
        }
    }
}

/// S-29, S-33: a server that refuses too late to be an error, or refuses locks only, costs nobody a
/// lock and is logged; the latter once, by its place among the addresses.
#[tokio::test]
async fn a_minority_that_refuses_later_is_logged() {
    let log = Log::start_at(tracing::Level::WARN);
    let count = |text: &str| log.text().matches(text).count();
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    let round = async |quorum: &LockClient| {
        let guard = quorum.mutex("n").lock().await.unwrap();
        soon!("a majority", on(&servers, "n").await >= 2);
        guard.release().await.unwrap();
        soon!("nothing is left", on(&servers, "n").await == 0);
    };
    round(&quorum).await;
    let says = "server 3 of the quorum refuses locks";
    assert_eq!(count(says), 0);
    for times in 1..=2 {
        servers[2].client().cmd(&["ACL", "SETUSER", "default", "-evalsha"]).await;
        for _ in 0..3 {
            round(&quorum).await;
        }
        soon!("it is logged", count(says) == times);
        servers[2].client().cmd(&["ACL", "SETUSER", "default", "+evalsha"]).await;
        soon!("it counts again", {
            round(&quorum).await;
            servers[2].client().get::<u64>(&["DEL", "redisson_lock_token:{n}"]).await == 1
        });
    }
    let locked = RedisServer::builder().password("right-one").start().await;
    let proxy = Proxy::start(locked.port()).await;
    proxy.delay(ms(800));
    let urls = [servers[0].url(), servers[1].url(), proxy.url()];
    let builder = LockClient::builder().server_timeout(ms(200));
    let quorum = builder.connect_quorum(urls, RestartGuard::Off).await.unwrap();
    let says = "wants a password";
    soon!("it is logged", count(says) > 0);
    round(&quorum).await;
}

/// S-29: the TLS options are those of every connection, also after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_of_tls_servers_needs_their_authority() {
    let authority = Authority::new("ours");
    let identity = authority.issue_for("127.0.0.1");
    let servers = join_all((0..3).map(|_| identity.server().password("secret").start())).await;
    let plain = RedisServer::start().await;
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let connect = async |tls: Option<TlsOptions>, urls: &[String]| {
        let builder = tls.into_iter().fold(LockClient::builder(), LockClientBuilder::tls);
        builder.connect_quorum(urls, RestartGuard::Off).await
    };
    let quorum = connect(Some(authority.trusted()), &urls).await.unwrap();
    for restarts in [false, true] {
        if restarts {
            servers[0].restart().await;
        }
        soon!("it is on the first", {
            let guard = quorum.mutex("t").lock().await.unwrap();
            let on_first = servers[0].client().exists("redisson_lock_token:{t}").await;
            guard.release().await.unwrap();
            on_first
        });
    }
    let mixed = [urls[0].clone(), urls[1].clone(), plain.url()];
    let other = Authority::new("other").trusted();
    for (outcome, says) in [
        (connect(None, &urls).await, "`TlsOptions::root_certificate`"),
        (connect(Some(other), &urls).await, "root_certificate"),
        (connect(Some(authority.trusted()), &mixed).await, "write rediss://host:port"),
    ] {
        let (kind, sentence) = kind_and_sentence(outcome.map(drop).unwrap_err());
        assert_eq!(kind, StoreErrorKind::Config, "{sentence}");
        assert!(sentence.contains(says) && !sentence.contains("secret"), "{sentence}");
    }
}

/// S-15: a connection that opened slowly, while another one came and went, serves like any other: what is subscribed on
/// it need not be subscribed again for each wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_overtaken_keeps_its_subscriptions() {
    let (opens, subscribed) = (watch::Sender::new(false), Arc::new(Mutex::new(Vec::new())));
    let (opening, subscriptions) = (opens.subscribe(), Arc::clone(&subscribed));
    let third = ScriptedServer::start(move |command| {
        let (mut opening, subscriptions) = (opening.clone(), Arc::clone(&subscriptions));
        Box::pin(async move {
            let (number, words) = (command.connection, command.words);
            match &*words[0] {
                "HELLO" if number != 2 => {
                    let _ = opening.wait_for(|opens| *opens).await;
                    if number > 2 {
                        sleep(secs(1)).await;
                    }
                    Scripted::Usual
                }
                "EVALSHA" if number == 2 && *opening.borrow() => Scripted::Close,
                // A release has one key, and an acquire two.
                "EVALSHA" if words[2] == "1" => Scripted::Script(":-1".to_owned()),
                "EVALSHA" => Scripted::Script(":9000".to_owned()),
                "SUBSCRIBE" if words[1] == "redisson_lock__channel:{n}" => {
                    subscriptions.lock().unwrap().push(number);
                    Scripted::Usual
                }
                _ => Scripted::Usual,
            }
        })
    });
    let (servers, third) = (servers(2).await, third.await);
    let holders = [connect(&servers[0]).await, connect(&servers[1]).await];
    let _held = join_all(holders.iter().map(async |holder| holder.mutex("n").lock().await)).await;
    let urls = [servers[0].url(), servers[1].url(), third.url()];
    let builder = LockClient::builder().server_timeout(ms(200));
    let quorum = builder.connect_quorum(urls, RestartGuard::Off).await.unwrap();
    let waits_for = async |time| {
        let refused = quorum.mutex("n").with(waits(time)).lock().await;
        assert!(refused.is_err(), "{refused:?}");
    };
    let times =
        |number: usize| subscribed.lock().unwrap().iter().filter(|other| **other == number).count();
    waits_for(ms(300)).await;
    assert!(times(1) == 0 && times(2) > 0, "the second connection is not in use");
    opens.send_replace(true);
    waits_for(ms(300)).await;
    soon!("the first connection is in use", times(1) > 0);
    // A waiter and the new connection may both subscribe at first.
    sleep(ms(100)).await;
    let before = times(1);
    for _ in 0..5 {
        waits_for(ms(50)).await;
    }
    assert_eq!(times(1), before, "subscribed again for each wait");
}
