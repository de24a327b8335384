//! Proxies that share commands out to several servers, and that keep a connection while the server behind them restarts.

use std::future::ready;

use lock_tests::ScriptedServer;
use lock_tests::scripted_server::Scripted;

use crate::prelude::*;

/// How often a request is sent before its caller gets the error.
const ROUNDS: usize = 4;

/// One that does not know a script right after it was sent: a request for a lock ends long before its time is over, and sends each script a few times at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_is_never_known_is_an_error() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = ScriptedServer::start(move |command| {
        Box::pin(ready(match &*command.words[0] {
            "EVALSHA" => {
                count.fetch_add(1, Ordering::SeqCst);
                Scripted::Error("NOSCRIPT No matching script.".to_owned())
            }
            _ => Scripted::Usual,
        }))
    });
    let store = RedisStore::connect(&server.await.url()).await.unwrap();
    for replicas in [None, Some(Replicas::new(1, ms(100)))] {
        for crowd in [1, 100] {
            let before = asked.load(Ordering::SeqCst);
            let all = join_all((0..crowd).map(async |n| {
                let target = Target::mutex(LockKey::new(format!("forgotten:{n}")).unwrap());
                let target = Arc::new(target.with_replicas(replicas));
                let owner = OwnerId::new(&client_id(), n, 1);
                let acquire = store.acquire(AcquireRequest::new(target, owner, SOON, SOON));
                acquire.await.map(drop).map_err(|error| error.kind())
            }));
            let answers = timeout(SOON / 2, all).await.expect("it is sent again and again");
            assert!(
                answers.iter().all(|answer| *answer == Err(StoreErrorKind::NotReady)),
                "{answers:?}"
            );
            let times = asked.load(Ordering::SeqCst) - before;
            assert!(times <= ROUNDS * usize::try_from(crowd).unwrap(), "{times} times for {crowd}");
        }
    }
}

/// S-29: a restart of the server behind a proxy is noticed over the same connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_behind_a_proxy_is_noticed() {
    let uptime = Arc::new(AtomicU64::new(100_000));
    let behind = Arc::clone(&uptime);
    let server = ScriptedServer::start(move |command| {
        Box::pin(ready(match &*command.words[0] {
            "INFO" => {
                let info = format!("uptime_in_seconds:{}\r\n", behind.load(Ordering::SeqCst));
                Scripted::Bytes(format!("${}\r\n{info}\r\n", info.len()))
            }
            _ => Scripted::Usual,
        }))
    });
    let server = server.await;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    assert!(store.age(SOON).await.unwrap() >= Some(secs(100_000)));
    uptime.store(0, Ordering::SeqCst);
    soon!("the restart is noticed", store.age(SOON).await.unwrap() < Some(secs(1_000)));
    assert_eq!(server.accepted(), 1, "over another connection");
}
