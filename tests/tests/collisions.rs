//! One name as two kinds of locks: never two holders, and an error wherever the data tells (S-32).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod kinds;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockError, LockOptions, Wait};
use lock_tests::RedisServer;
use tokio::time::{Instant, timeout};

use kinds::{KINDS, take};

const SOON: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// Both hold it.
    Shared,
    /// Held: come again.
    Busy,
    /// Used as something else: never.
    Collision,
}

use Answer::{Busy, Collision, Shared};

/// What is asked for while it is held as something.
fn expected(held: &str, asked: &str) -> Answer {
    match (held, asked) {
        ("read", "read") => Shared,
        ("read" | "write", "read" | "write") => Busy,
        // Redisson's fair lock is held in the same form as its plain one, so a fair mutex takes its
        // place in line behind a plain one. The other way round our fair mutex is marked as one.
        ("mutex", "fair") => Busy,
        _ if held == asked => Busy,
        _ => Collision,
    }
}

fn options(wait: impl Into<Wait>) -> LockOptions {
    LockOptions::builder().wait(wait).build().unwrap()
}

/// Each ordered pair, asked by another client and by the holder's own, at once and with a wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pair_is_told_apart() {
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let other = LockClient::connect(&server.url()).await.unwrap();
    let wait = Duration::from_millis(100);
    for (held, _) in KINDS {
        for (asked, _) in KINDS {
            let name = format!("{held}:{asked}");
            let guard = take(&client, held, &name, options(SOON)).await.unwrap();
            for (who, asker) in [("another", &other), ("the same", &client)] {
                for (wait, how) in [(Wait::Never, "at once"), (wait.into(), "with a wait")] {
                    let what = format!("{held}, then {asked} by {who} client {how}");
                    let start = Instant::now();
                    let outcome = take(asker, asked, &name, options(wait)).await;
                    let answer = match outcome {
                        Ok(second) => {
                            second.release().await.unwrap();
                            Shared
                        }
                        Err(LockError::Busy { .. } | LockError::Timeout { .. }) => Busy,
                        Err(LockError::KeyCollision { .. }) => Collision,
                        Err(error) => panic!("{what}: {error:?}"),
                    };
                    assert_eq!(answer, expected(held, asked), "{what}");
                    let waited = start.elapsed();
                    assert!(
                        answer == Busy || waited < Duration::from_secs(1),
                        "{what}: {waited:?}"
                    );
                }
            }
            // Whatever was asked for, the holder has what it had.
            guard.extend(Duration::from_secs(40)).await.unwrap();
            guard.release().await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            if held != "semaphore" {
                let next = take(&other, asked, &name, options(SOON)).await;
                next.unwrap_or_else(|error| panic!("{name}: {error:?}")).release().await.unwrap();
            }
        }
    }
}

/// The number of a semaphore's permits stays for a day, and the name is a semaphore's so long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_keeps_its_name() {
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    take(&client, "semaphore", "s", options(SOON)).await.unwrap().release().await.unwrap();
    for (kind, _) in KINDS {
        let outcome = take(&client, kind, "s", options(Wait::Never)).await;
        let refused = matches!(outcome, Err(LockError::KeyCollision { .. }));
        assert_eq!(refused, kind != "semaphore", "{kind}: {outcome:?}");
    }
}

/// A count-down latch is a number as well: only a semaphore cannot tell it from its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_is_no_lock() {
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    server.client().cmd(&["SET", "latch", "3"]).await;
    for kind in ["mutex", "fair", "read", "write"] {
        let error = take(&client, kind, "latch", options(SOON)).await.unwrap_err();
        assert!(matches!(error, LockError::KeyCollision { .. }), "{kind}: {error:?}");
        assert_eq!(server.client().get::<i64>(&["GET", "latch"]).await, 3, "{kind}");
    }
}

/// All kinds that share a form compete for one name, in two processes' stead: readers together or
/// one alone, at every moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_kinds_never_overlaps() {
    let server = RedisServer::start().await;
    // Readers count one, whoever is alone counts a thousand.
    let (inside, grants) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let client = LockClient::connect(&server.url()).await.unwrap();
        for kind in ["mutex", "fair", "read", "read", "write", "mutex", "fair"] {
            let (client, inside, grants) = (client.clone(), inside.clone(), grants.clone());
            tasks.push(tokio::spawn(async move {
                let until = Instant::now() + Duration::from_secs(3);
                let weight = if kind == "read" { 1 } else { 1000 };
                let lease = Lease::Watchdog(Duration::from_secs(5));
                let options = options(Duration::from_millis(50)).to_builder().lease(lease);
                let options = options.build().unwrap();
                while Instant::now() < until {
                    match take(&client, kind, "one", options).await {
                        Ok(guard) => {
                            let now = inside.fetch_add(weight, Ordering::SeqCst) + weight;
                            assert!(now <= 1000, "{kind}: {now} inside");
                            grants.fetch_add(1, Ordering::SeqCst);
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            inside.fetch_sub(weight, Ordering::SeqCst);
                            guard.release().await.unwrap();
                        }
                        Err(LockError::KeyCollision { .. }) => {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                        Err(error) if error.is_busy() => {}
                        Err(error) => panic!("{kind}: {error:?}"),
                    }
                }
            }));
        }
    }
    for task in tasks {
        timeout(SOON, task).await.expect("hung").unwrap();
    }
    let grants = grants.load(Ordering::SeqCst);
    assert!(grants > 50, "only {grants} grants: nobody competed");
}
