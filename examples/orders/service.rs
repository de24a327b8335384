//! The operations on an order.

use std::time::Duration;

use lock_runtime::{FencingToken, LockClient, distributed_lock};

use crate::error::OrderError;
use crate::ledger::Ledger;

/// The service behind the routes.
#[derive(Clone)]
pub(crate) struct Orders {
    locks: LockClient,
    ledger: Ledger,
    card: Duration,
}

impl Orders {
    /// `card` is the time that the card network takes to answer.
    pub(crate) fn new(locks: LockClient, ledger: Ledger, card: Duration) -> Self {
        Self { locks, ledger, card }
    }

    pub(crate) fn locks(&self) -> &LockClient {
        &self.locks
    }

    pub(crate) async fn balance(&self, order_id: &str) -> Result<u64, OrderError> {
        self.ledger.balance(order_id).await
    }

    /// Takes a payment and returns the new balance.
    #[distributed_lock(
        policy = "payments",
        key = "order:{order_id}",
        guard = hold,
        client = self.locks
    )]
    pub(crate) async fn pay(&self, order_id: &str, cents: u64) -> Result<u64, OrderError> {
        let token = hold.token();
        let paid = self.ledger.begin(order_id, token).await?.saturating_add(cents);
        self.card_network().await;
        self.ledger.write(order_id, paid, token).await?;
        Ok(paid)
    }

    /// The same with neither lock nor fence, for `LOCKS=off`.
    pub(crate) async fn pay_unlocked(&self, order_id: &str, cents: u64) -> Result<u64, OrderError> {
        let paid = self.ledger.balance(order_id).await?.saturating_add(cents);
        self.card_network().await;
        self.ledger.write_unfenced(order_id, paid).await?;
        Ok(paid)
    }

    /// Pays back and returns the new balance. The route holds the lock of `token`.
    pub(crate) async fn refund(
        &self,
        order_id: &str,
        cents: u64,
        token: FencingToken,
    ) -> Result<u64, OrderError> {
        let paid = self.ledger.begin(order_id, token).await?;
        let left = paid.checked_sub(cents).ok_or(OrderError::TooMuch { paid })?;
        self.card_network().await;
        self.ledger.write(order_id, left, token).await?;
        Ok(left)
    }

    /// Waits for the card network; meanwhile other requests want to change the balance.
    async fn card_network(&self) {
        tracing::debug!("waiting for the card network");
        tokio::time::sleep(self.card).await;
    }
}
