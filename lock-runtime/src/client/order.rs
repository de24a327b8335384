//! The lock order, as a client shows it.

use super::LockClient;
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
