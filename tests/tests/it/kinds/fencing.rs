//! Fencing tokens of a name only ever grow (S-23), whatever becomes of the server's data.

use crate::prelude::*;

/// The kinds whose holds are alone, and so are ordered by their tokens.
const EXCLUSIVE: [&str; 3] = ["mutex", "fair", "write"];

/// Takes and releases it, and checks that its token is above all before it.
async fn next(client: &LockClient, kind: &str, name: &str, last: &mut FencingToken) {
    let guard = take(client, kind, name, LockOptions::default()).await.unwrap();
    assert!(guard.token() > *last, "{kind}: {} after {last}", guard.token());
    *last = guard.token();
    guard.release().await.unwrap();
}

/// One counter for a name, whatever it is taken as and by whom; a re-entry adds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_share_a_counter() {
    let server = RedisServer::start().await;
    let clients =
        [LockClient::connect(&server.url()).await, LockClient::connect(&server.url()).await];
    let clients = clients.map(Result::unwrap);
    let mut last = FencingToken::new(0);
    for round in 0..5 {
        for kind in ["mutex", "fair", "write", "read", "mutex", "write", "fair"] {
            next(&clients[round % 2], kind, "one", &mut last).await;
        }
        let guard = clients[0].mutex("one").lock().await.unwrap();
        let nested = guard.run(clients[0].mutex("one").lock()).await.unwrap().unwrap();
        assert_eq!(nested.token(), guard.token());
        last = guard.token();
        nested.release().await.unwrap();
        guard.release().await.unwrap();
    }
    // Its number stays where the locks have been, so it comes last.
    next(&clients[0], "semaphore", "one", &mut last).await;
    next(&clients[1], "semaphore", "one", &mut last).await;
}

/// S-23: tokens that holds reserve and do not use do not take the counter ahead of the clock either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counter_stays_close_to_the_clock() {
    let server = RedisServer::start().await;
    let never = LockClient::builder().handoff_window(Duration::ZERO);
    let never = never.connect(&server.url()).await.unwrap();
    let half = connect(&server).await;
    // The first client hands nothing on, the second nothing to a waiter that wants another lease.
    for (name, client, leases) in
        [("never", never, [secs(30), secs(30)]), ("half", half, [secs(30), secs(31)])]
    {
        let end = Instant::now() + secs(1);
        let tasks = (0..300).map(|task| {
            let options = watched(leases[task % 2]);
            let lock = client.mutex(name).with(options);
            async move {
                while Instant::now() < end {
                    lock.lock().await.unwrap().release().await.unwrap();
                }
            }
        });
        joined(tasks.map(lock_tests::spawn).collect::<Vec<_>>()).await;
        let raw = server.client();
        let counter: u64 = raw.get(&["GET", &format!("redisson_lock_token:{{{name}}}")]).await;
        let now = raw.time_millis().await * 1000;
        assert!(counter < now + 10_000, "{name}: {} µs ahead", counter - now);
    }
}

/// S-14: handed from task to task within two processes that compete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_keep_the_order() {
    let server = RedisServer::start().await;
    let last = std::sync::Arc::new(std::sync::Mutex::new(0));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let client = connect(&server).await;
        for task in 0..8 {
            let (client, last) = (client.clone(), last.clone());
            tasks.push(lock_tests::spawn(async move {
                for turn in 0..60 {
                    // A hold that is handed on and one that never is share the counter.
                    let kind = if task == 0 && turn % 4 == 0 { "fixed" } else { "watched" };
                    let lease = match kind {
                        "fixed" => Lease::Fixed(secs(30)),
                        _ => Lease::default(),
                    };
                    let options = leased(lease);
                    let guard = client.mutex("hot").with(options).lock().await.unwrap();
                    {
                        let mut last = last.lock().unwrap();
                        assert!(guard.token().get() > *last, "{} after {last}", guard.token());
                        *last = guard.token().get();
                    }
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    joined(tasks).await;
}

/// Takes it once the client has found the server again.
async fn retake(client: &LockClient, kind: &str) -> LockGuard {
    let mut taken = None;
    soon!("the client is back", {
        taken = match take_named(client, kind, LockOptions::default()).await {
            Ok(guard) => Some(guard),
            Err(LockError::Store(error)) if error.kind().is_transient() => None,
            Err(error) => panic!("{error:?}"),
        };
        taken.is_some()
    });
    taken.unwrap()
}

/// A server that comes back with nothing, and one whose data an operator removes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_data_does_not_turn_them_back() {
    let (server, client, other) = world_of_two().await;
    for kind in EXCLUSIVE {
        let mut last = FencingToken::new(0);
        for round in 0..4 {
            let lost = retake(&client, kind).await;
            assert!(lost.token() > last, "{kind}, {round}: {} after {last}", lost.token());
            last = lost.token();
            if round % 2 == 0 {
                server.restart().await;
            } else {
                server.client().cmd(&["FLUSHALL"]).await;
            }
            // The old hold is gone without a word; the next is above it all the same.
            let guard = retake(&other, kind).await;
            assert!(guard.token() > last, "{kind}, {round}: {} after {last}", guard.token());
            last = guard.token();
            assert!(matches!(lost.release().await, Err(LockError::Lost { .. })), "{kind}");
            guard.release().await.unwrap();
        }
    }
}

/// A server that comes back with an older state: the counter is behind, and a lock that was given
/// back is held again by an owner that no task keeps, until its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_does_not_turn_them_back() {
    let (server, client, other) = world_of_two().await;
    let lease = secs(2);
    let options = watched(lease);
    for kind in EXCLUSIVE {
        let old = take_named(&client, kind, options.clone()).await.unwrap();
        let counter = format!("redisson_lock_token:{{{kind}}}");
        server.client().cmd(&["SAVE"]).await;
        let saved: u64 = server.client().get(&["GET", &counter]).await;
        old.release().await.unwrap();
        let mut last = FencingToken::new(saved);
        for _ in 0..20 {
            next(&client, kind, kind, &mut last).await;
        }
        let held = take_named(&client, kind, options.clone()).await.unwrap();
        server.restart().await;
        let rolled_back: u64 = server.client().get(&["GET", &counter]).await;
        assert_eq!(rolled_back, saved, "the server did not go back");
        // Its owner is not in the old state, and it hears of that.
        let lost = timeout(lease * 2, held.lost()).await.expect("not noticed");
        assert!(lost.is_lost());
        let guard = timeout(SOON, retake(&other, kind)).await.expect("held for ever");
        assert!(guard.token() > held.token(), "{kind}: {} after {}", guard.token(), held.token());
        guard.release().await.unwrap();
    }
}
