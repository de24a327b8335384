//! The lock order: whether a client records it, and what is recorded.

use super::{LockClient, LockClientBuilder};
use crate::order::LockOrder;

impl LockClient {
    /// Returns which locks were acquired inside of which, and the contradictions among them: see [`order`](crate::order).
    /// These are the locks of all clients of this process that
    /// [record them](crate::LockClientBuilder::lock_order).
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::builder().lock_order(true).in_memory()?;
    /// let (order, stock) = (client.mutex("order:42"), client.mutex("stock:7"));
    /// order.run(async { stock.run(async {}).await }).await??;
    ///
    /// let found = client.lock_order();
    /// assert_eq!((found.edges[0].outer.as_str(), found.edges[0].inner.as_str()), ("order", "stock"));
    /// assert!(found.inversions.is_empty());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn lock_order(&self) -> LockOrder {
        LockOrder::recorded()
    }
}

impl LockClientBuilder {
    /// Sets whether acquires inside of other holds are recorded, to find [orders that contradict each
    /// other](crate::order). Default: true in programs with debug assertions.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::builder().lock_order(true).in_memory()?;
    /// println!("{}", client.lock_order());
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn lock_order(mut self, is_recorded: bool) -> Self {
        self.lock_order = is_recorded;
        self
    }
}
