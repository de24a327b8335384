//! A process that sleeps past its lease, and what the database makes of it.

use crate::tower::orders::shop::{BOUND, Shop, get, money};
use crate::tower::prelude::*;

const SHORT: (&str, &str) = ("MYAPP_LOCK__POLICIES__PAYMENTS__LEASE", "watchdog 1s");

/// Time enough to do something in the middle of a payment.
const SLOW: (&str, &str) = ("CARD_MS", "2000");

/// Shows when a payment waits for the card network: it has read the balance by then, and the database is not locked. A
/// process that is stopped in the middle of a statement would keep the database locked for the other one.
const SHOWN: (&str, &str) = ("RUST_LOG", "info,orders=debug");

const REFUSED: &str = "a late write is refused";

impl Shop {
    /// How many payments of that process have read the balance so far.
    fn payments_begun(&self, process: usize) -> usize {
        self.log(process).matches("waiting for the card network").count()
    }

    /// Waits until that process has read the balance for one more payment than `before`.
    async fn begins_a_payment(&self, process: usize, before: usize) {
        let what = format!("process {process} has read the balance");
        eventually(BOUND, &what, async || self.payments_begun(process) > before).await;
    }
}

/// S-24: another process has acquired the lock while its holder slept. The holder wakes, writes, and is refused; the
/// balance is that of its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_refuses_a_late_write() {
    let shop = Shop::open_each([&[SHORT, SLOW, SHOWN], &[SHORT]]).await;
    let (slow, quick) = (0, 1);
    assert_eq!(shop.send(quick, money("pay", 7, 100)).await.0, StatusCode::OK);
    let begun = shop.payments_begun(0);

    let late = shop.send(slow, money("pay", 7, 50));
    let meanwhile = async {
        shop.begins_a_payment(0, begun).await;
        shop.processes[0].sigstop();
        let answer = shop.send(quick, money("pay", 7, 25)).await;
        shop.processes[0].sigcont();
        answer
    };
    let (late, meanwhile) = tokio::join!(late, meanwhile);

    assert_eq!(meanwhile, (StatusCode::OK, r#"{"order":"7","cents":125}"#.to_owned()));
    assert_eq!(late.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(late.1.contains("lock-lost"), "{late:?}");
    assert!(shop.log(0).contains(REFUSED), "{}", shop.log(0));
    let (_, metrics) = shop.send(slow, get("/metrics")).await;
    assert!(metrics.contains("\norders_writes_refused_total 1\n"), "{metrics}");
    assert_eq!(shop.balance(7).await, 125);
    // It is none the worse for it.
    assert_eq!(shop.send(slow, money("pay", 7, 5)).await.0, StatusCode::OK);
    assert_eq!(shop.balance(7).await, 130);
}

/// S-24: a holder that has only read shuts out all earlier holders. A late write after its read would be overwritten by
/// what it makes of the older balance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_has_only_read_is_not_undercut() {
    let shop = Shop::open(&[SHORT, SLOW, SHOWN]).await;
    let (first, second) = (0, 1);
    assert_eq!(shop.send(second, money("pay", 7, 100)).await.0, StatusCode::OK);
    let begun = [0, 1].map(|process| shop.payments_begun(process));

    let late = shop.send(first, money("pay", 7, 50));
    let meanwhile = async {
        shop.begins_a_payment(0, begun[0]).await;
        shop.processes[0].sigstop();
        let resume = async {
            shop.begins_a_payment(1, begun[1]).await;
            shop.processes[0].sigcont();
        };
        tokio::join!(shop.send(second, money("pay", 7, 25)), resume).0
    };
    let (late, meanwhile) = tokio::join!(late, meanwhile);

    assert_eq!(late.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(meanwhile, (StatusCode::OK, r#"{"order":"7","cents":125}"#.to_owned()));
    assert!(shop.log(0).contains(REFUSED), "{}", shop.log(0));
}

/// S-13: with `on_lost = "cancel"`, a holder that has lost its lock does not try to write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_told_to_stop_does_not_write() {
    let envs = [SHORT, ("MYAPP_LOCK__POLICIES__PAYMENTS__ON_LOST", "cancel"), ("CARD_MS", "60000")];
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
