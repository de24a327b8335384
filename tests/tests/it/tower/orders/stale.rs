//! A process that sleeps past its lease, and what the database makes of it.

use crate::tower::orders::shop::{BOUND, Shop, get, money};
use crate::tower::prelude::*;

const SHORT: (&str, &str) = ("MYAPP_LOCK_POLICIES__PAYMENTS__LEASE", "watchdog 1s");

/// Time enough to do something in the middle of a payment.
const SLOW: (&str, &str) = ("CARD_MS", "2000");

const REFUSED: &str = "a late write is refused";

impl Shop {
    /// Waits for the next statement that the database logs. Nothing is checkpointed in these tests, so
    /// its log grows with each.
    async fn next_statement(&self, what: &str) {
        let length = || fs::metadata(self.database("-wal")).unwrap().len();
        let before = length();
        eventually(BOUND, what, async || length() > before).await;
    }
}

/// S-24: the lock has gone to somebody else while its holder slept. The holder wakes, writes, and is
/// refused; the balance is that of its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_refuses_a_late_write() {
    let shop = Shop::open_each([&[SHORT, SLOW], &[SHORT]]).await;
    let (slow, quick) = (0, 1);
    assert_eq!(shop.send(quick, money("pay", 7, 100)).await.0, StatusCode::OK);

    let late = shop.send(slow, money("pay", 7, 50));
    let meanwhile = async {
        shop.next_statement("the slow one has read the balance").await;
        shop.processes[0].sigstop();
        let answer = shop.send(quick, money("pay", 7, 25)).await;
        shop.processes[0].sigcont();
        answer
    };
    let (late, meanwhile) = tokio::join!(late, meanwhile);

    assert_eq!(meanwhile, (StatusCode::OK, r#"{"order":"7","cents":125}"#.to_owned()));
    assert_eq!(late, (StatusCode::INTERNAL_SERVER_ERROR, String::new()));
    assert!(shop.log(0).contains(REFUSED), "{}", shop.log(0));
    let (_, metrics) = shop.send(slow, get("/metrics")).await;
    assert!(metrics.contains("\norders_writes_refused_total 1\n"), "{metrics}");
    assert_eq!(shop.balance(7).await, 125);
    // It is none the worse for it.
    assert_eq!(shop.send(slow, money("pay", 7, 5)).await.0, StatusCode::OK);
    assert_eq!(shop.balance(7).await, 130);
}

/// S-24: reading under the lock is enough to shut out whoever had it before. A late write that came
/// through after it would be overwritten by what the successor makes of the older balance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_has_only_read_is_not_undercut() {
    let shop = Shop::open(&[SHORT, SLOW]).await;
    let (first, second) = (0, 1);
    assert_eq!(shop.send(second, money("pay", 7, 100)).await.0, StatusCode::OK);

    let late = shop.send(first, money("pay", 7, 50));
    let meanwhile = async {
        shop.next_statement("the first has read the balance").await;
        shop.processes[0].sigstop();
        let resume = async {
            shop.next_statement("the second has read the balance").await;
            shop.processes[0].sigcont();
        };
        tokio::join!(shop.send(second, money("pay", 7, 25)), resume).0
    };
    let (late, meanwhile) = tokio::join!(late, meanwhile);

    assert_eq!(late.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(meanwhile, (StatusCode::OK, r#"{"order":"7","cents":125}"#.to_owned()));
    assert!(shop.log(0).contains(REFUSED), "{}", shop.log(0));
}

/// S-13: told to, by `on_lost = "cancel"`, the holder that has lost its lock does not even try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_told_to_stop_does_not_write() {
    let envs = [SHORT, ("MYAPP_LOCK_POLICIES__PAYMENTS__ON_LOST", "cancel"), ("CARD_MS", "60000")];
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
    assert!(!shop.log(0).contains(REFUSED), "{}", shop.log(0));
}
