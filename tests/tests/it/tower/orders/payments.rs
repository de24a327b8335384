//! Many clients at once, with locks and without.

use rustix::process::Signal;

use crate::tower::orders::shop::{BOUND, Shop, money};

const ORDERS: u64 = 20;
const PAYMENTS: u64 = 1000;

impl Shop {
    /// The thousand payments, spread over both processes and all orders, and what became of them:
    /// the balances, and what they should be.
    async fn take_payments(&self) -> Vec<(u64, u64)> {
        let payments = || (0..PAYMENTS).map(|n| (n, n % ORDERS, n + 1));
        // Turn and turn about within each order.
        let requests = payments().map(|(n, order, cents)| (n / ORDERS, money("pay", order, cents)));
        assert_eq!(self.send_at_once(requests).await, [(200, 1000)].into());
        let mut balances = Vec::new();
        for this in 0..ORDERS {
            let paid = payments().filter(|(_, order, _)| *order == this);
            balances.push((self.balance(this).await, paid.map(|(.., cents)| cents).sum()));
        }
        balances
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_payment_is_lost() {
    let mut shop = Shop::open(&[]).await;
    for (order, (balance, paid)) in shop.take_payments().await.into_iter().enumerate() {
        assert_eq!(balance, paid, "order {order}");
    }
    // Asked to stop, the processes leave nothing locked.
    for process in [0, 1] {
        shop.signal(process, Signal::TERM);
        assert!(shop.processes[process].wait(BOUND).await.success());
    }
    assert_eq!(shop.locked().await, [""; 0]);
}

/// The test above has teeth: the same run without locks loses payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_payments_are_lost() {
    let shop = Shop::open(&[("LOCKS", "off")]).await;
    let balances = shop.take_payments().await;
    assert!(balances.iter().any(|(balance, paid)| balance < paid), "{balances:?}");
}

/// The layer around the one route and the attribute on the other method lock the same thing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunds_and_payments_exclude_each_other() {
    let shop = Shop::open(&[]).await;
    let funds = (0..4).map(|order| (order, money("pay", order, 1000)));
    assert_eq!(shop.send_at_once(funds).await, [(200, 4)].into());
    // Of each order 25 times 30 are paid back and 25 times 10 are paid, in both processes.
    let requests = (0..200).map(|n| {
        let (order, process) = (n % 4, n / 8);
        let (what, cents) = if n / 4 % 2 == 0 { ("refund", 30) } else { ("pay", 10) };
        (process, money(what, order, cents))
    });
    assert_eq!(shop.send_at_once(requests).await, [(200, 200)].into());
    for order in 0..4 {
        assert_eq!(shop.balance(order).await, 1000 - 25 * 30 + 25 * 10, "order {order}");
    }
    let (status, body) = shop.send(1, money("refund", 0, 501)).await;
    assert_eq!((status.as_u16(), body.as_str()), (422, "only 500 cents have been paid\n"));
}
