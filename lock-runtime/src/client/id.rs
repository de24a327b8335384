//! [`LockClientId`]: which client it is.

use std::fmt;

use uuid::Uuid;

use super::LockClient;

/// Which client it is: see [`LockClient::id`]. Prints as a uuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockClientId(Uuid);

impl fmt::Display for LockClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl LockClient {
    /// Tells this client from all others, of this process and of any other. Clones are one client;
    /// clients that were made one by one are not, whatever server and settings they share.
    ///
    /// It is the uuid in the store: a hold of this client has the owner `{id}:{number}`, and each
    /// connection to a server, a cluster or the master of sentinels is called `lock-runtime:{id}`. So
    /// an operator finds the process that has a lock: `HKEYS` of the lock's name gives the id, and
    /// `CLIENT LIST` the address of the connections with it. (The name needs the permission
    /// `+client|setname`; without it connections have none.) Log it once at start-up. Locks of several names of
    /// another kind than a mutex, and those over several clients, have owners of their own.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::in_memory();
    /// assert_eq!(client.id(), client.clone().id());
    /// assert_ne!(client.id(), LockClient::in_memory().id());
    /// println!("locks of this process are held by {}", client.id());
    /// ```
    #[must_use]
    pub fn id(&self) -> LockClientId {
        LockClientId(self.engine.id)
    }
}
