//! The id of a client.

use uuid::Uuid;

use super::LockClient;
#[cfg(feature = "redis")]
use super::LockClientBuilder;
#[cfg(feature = "redis")]
use crate::store::redis::ConnectionName;

impl LockClient {
    /// Returns the id of this client, which is unique among all processes. Clones are one client; clients that
    /// were created separately are not, even with the same server and settings.
    ///
    /// It is the uuid in the store: a hold of this client has the owner `{id}:{number}`, and each connection to
    /// a server, a cluster or the master of sentinels is named `lock-runtime:{id}:{service}@{host}:{pid}`, with `_` for
    /// each character that Redis does not allow in a name. So an operator can find the process that has a lock: `HKEYS`
    /// of the lock's name returns the id, and `CLIENT LIST` the process, also of one that hangs. (The name needs the
    /// permission `+client|setname`; without it connections are unnamed.) Log it once at start-up.
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
    pub fn id(&self) -> Uuid {
        self.engine.leases.client
    }

    /// Logs with what a client starts, for an operator who meets its id or its locks elsewhere. As in a survey, only the
    /// beginning of the id: owners begin with the whole of it.
    pub(super) fn log_start(&self) {
        let servers = self.engine.leases.store.addresses().join(", ");
        if !servers.is_empty() {
            let id = self.id().to_string();
            tracing::info!(
                client = id.get(..8),
                server = servers,
                namespace = self.namespace(),
                version = env!("CARGO_PKG_VERSION"),
                "lock client is ready"
            );
        }
    }
}

#[cfg(feature = "redis")]
impl LockClientBuilder {
    /// What the connections of a new client are called.
    pub(crate) fn connection_name(&self) -> ConnectionName {
        #[cfg(feature = "survey")]
        return ConnectionName::new(self.service.as_deref());
        #[cfg(not(feature = "survey"))]
        ConnectionName::new(None)
    }
}
