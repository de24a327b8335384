//! A process that sleeps past its lease, and what the database makes of it.

use std::fs;

use http::StatusCode;
use lock_tests::eventually;

use crate::shop::{BOUND, Shop, get, money};

/// S-24: the lock has gone to somebody else while its holder slept. The holder wakes, writes, and is
/// refused; the balance is that of its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_refuses_a_late_write() {
    let short = ("LOCK_POLICIES__PAYMENTS__LEASE", "watchdog 1s");
    // Time enough to stop it in the middle.
    let slow = [short, ("CARD_MS", "2000")];
    let shop = Shop::open_each([&slow, &[short]]).await;
    let (slow, quick) = (0, 1);
    assert_eq!(shop.send(quick, money("pay", 7, 100)).await.0, StatusCode::OK);

    // Nothing is checkpointed here, so the log of the database grows with every statement.
    let written = || fs::metadata(shop.database("-wal")).unwrap().len();
    let before = written();
    let late = shop.send(slow, money("pay", 7, 50));
    let meanwhile = async {
        eventually(BOUND, "the slow one has read the balance", async || written() > before).await;
        shop.processes[0].sigstop();
        let answer = shop.send(quick, money("pay", 7, 25)).await;
        shop.processes[0].sigcont();
        answer
    };
    let (late, meanwhile) = tokio::join!(late, meanwhile);

    assert_eq!(meanwhile, (StatusCode::OK, r#"{"order":"7","cents":125}"#.to_owned()));
    assert_eq!(late, (StatusCode::INTERNAL_SERVER_ERROR, String::new()));
    assert!(shop.log(0).contains("a late write is refused"), "{}", shop.log(0));
    let (_, metrics) = shop.send(slow, get("/metrics")).await;
    assert!(metrics.contains("\norders_writes_refused_total 1\n"), "{metrics}");
    assert_eq!(shop.balance(7).await, 125);
    // It is none the worse for it.
    assert_eq!(shop.send(slow, money("pay", 7, 5)).await.0, StatusCode::OK);
    assert_eq!(shop.balance(7).await, 130);
}

/// S-13: by the default of `on_lost`, the holder that has lost its lock does not even try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_told_to_stop_does_not_write() {
    let envs = [
        ("LOCK_POLICIES__PAYMENTS__LEASE", "watchdog 1s"),
        ("LOCK_POLICIES__PAYMENTS__ON_LOST", "cancel"),
        ("CARD_MS", "60000"),
    ];
    let shop = Shop::open_each([&envs, &[]]).await;
    let pay = shop.send(0, money("pay", 7, 50));
    let free = async {
        eventually(BOUND, "it is locked", async || !shop.locked().await.is_empty()).await;
        for key in shop.locked().await {
            shop.redis.client().del(&key).await;
        }
    };
    let ((status, _), ()) = tokio::join!(pay, free);
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!shop.log(0).contains("a late write"), "{}", shop.log(0));
}
