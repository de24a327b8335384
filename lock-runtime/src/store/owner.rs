//! For whom a lock is held.

use std::fmt;
use std::sync::Arc;

/// Who holds a lock in the store: one client's uuid and the number of the hold.
///
/// Shown nowhere: whoever knows it can release the lock.
// S-4.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerId {
    field: Arc<str>,
    permits: u32,
    within: Option<Arc<str>>,
}

impl OwnerId {
    /// Hold number `hold` of a client, which is known by its [`client_id`](super::client_id()), and how
    /// many permits of a semaphore it takes, at least one; one for all other kinds.
    #[must_use]
    pub fn new(client: &str, hold: u64, permits: u32) -> Self {
        Self { field: format!("{client}:{hold}").into(), permits: permits.max(1), within: None }
    }

    /// The same, reading inside of that writer.
    #[must_use]
    pub fn within(self, writer: &Self) -> Self {
        Self { within: Some(Arc::clone(&writer.field)), ..self }
    }

    /// The owner of the write side around a hold of the read side, if there is one: it does not
    /// keep that out, and neither do writers who wait.
    // S-27.
    #[must_use]
    pub fn writer(&self) -> Option<&str> {
        self.within.as_deref()
    }

    /// The same owner, with so many permits.
    pub(crate) fn with_permits(&self, permits: u32) -> Self {
        Self { permits, ..self.clone() }
    }

    /// [`as_field`](Self::as_field), to keep.
    pub(crate) fn shared_field(&self) -> Arc<str> {
        Arc::clone(&self.field)
    }

    /// The field name in the lock's hash: `uuid:n`.
    #[must_use]
    pub fn as_field(&self) -> &str {
        &self.field
    }

    /// How many permits of a semaphore this hold takes; one for all other kinds.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hold = self.field.rsplit(':').next().unwrap_or_default();
        write!(f, "OwnerId(…:{hold})")
    }
}
