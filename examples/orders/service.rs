//! What can be done with an order.

use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};
use redis::RedisError;

use crate::ledger::Ledger;

/// Whether this process takes part in locking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locks {
    On,
    Off,
}

/// The service behind the routes.
#[derive(Clone)]
pub(crate) struct Orders {
    locks: LockClient,
    ledger: Ledger,
}

/// What can go wrong with an order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("only {paid} cents have been paid")]
    TooMuch { paid: u64 },
    #[error("the order could not be locked")]
    Lock(#[from] LockError),
    #[error("the balance could not be read or written")]
    Ledger(#[from] RedisError),
}

impl Orders {
    pub(crate) fn new(locks: LockClient, ledger: Ledger) -> Self {
        Self { locks, ledger }
    }

    pub(crate) fn locks(&self) -> &LockClient {
        &self.locks
    }

    pub(crate) async fn balance(&self, order_id: &str) -> Result<u64, OrderError> {
        Ok(self.ledger.read(order_id).await?)
    }

    /// Takes a payment, and gives the new balance.
    #[distributed_lock(key = "order:{order_id}", wait = "20s", client = self.locks)]
    pub(crate) async fn pay(&self, order_id: &str, cents: u64) -> Result<u64, OrderError> {
        self.pay_unlocked(order_id, cents).await
    }

    /// What `pay` does, for whoever runs with `LOCKS=off`.
    pub(crate) async fn pay_unlocked(&self, order_id: &str, cents: u64) -> Result<u64, OrderError> {
        let paid = self.ledger.read(order_id).await?;
        card_network().await;
        let paid = paid.saturating_add(cents);
        self.ledger.write(order_id, paid).await?;
        Ok(paid)
    }

    /// Pays back, and gives the new balance. The route holds the lock.
    pub(crate) async fn refund(&self, order_id: &str, cents: u64) -> Result<u64, OrderError> {
        let paid = self.ledger.read(order_id).await?;
        let left = paid.checked_sub(cents).ok_or(OrderError::TooMuch { paid })?;
        card_network().await;
        self.ledger.write(order_id, left).await?;
        Ok(left)
    }
}

/// A call that takes its time, while others read the balance that is about to change.
async fn card_network() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
