//! [`LockClientId`]: which client it is.

use super::LockClient;

/// Which client of this process it is, for those who keep something for each client: see
/// [`LockClient::id`]. It says nothing about the client, and nothing outside of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockClientId(u64);

impl LockClient {
    /// Tells this client from all others of the process, also from those that are gone. Clones are one
    /// client; clients that were made one by one are not, whatever server and settings they share.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::in_memory();
    /// assert_eq!(client.id(), client.clone().id());
    /// assert_ne!(client.id(), LockClient::in_memory().id());
    /// ```
    #[must_use]
    pub fn id(&self) -> LockClientId {
        LockClientId(self.engine.keeper.id)
    }
}
