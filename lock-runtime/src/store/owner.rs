//! Owner ids of holds.

use std::fmt;
use std::sync::Arc;

/// The owner of a hold in the store: one client's uuid and the number of the hold.
///
/// It is shown nowhere: any client that knows it can release the lock.
// S-4.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerId {
    field: Arc<str>,
    permits: u32,
    within: Option<Arc<str>>,
}

impl OwnerId {
    /// Creates the owner of hold number `hold` of a client, which is known by its
    /// [`client_id`](super::client_id()), and how many permits of a semaphore it acquires, at least one; one
    /// for all other kinds.
    #[must_use]
    pub fn new(client: &str, hold: u64, permits: u32) -> Self {
        // By hand and on the stack, because every acquire has an owner: `format!` takes ten times as long.
        let (mut room, mut number) = ([0; 64], itoa::Buffer::new());
        let parts = [client, ":", number.format(hold)];
        let field = joined(&mut room, parts).map_or_else(|| parts.concat().into(), Arc::from);
        Self { field, permits: permits.max(1), within: None }
    }

    /// Returns the same owner, reading inside of that writer.
    #[must_use]
    pub fn within(self, writer: &Self) -> Self {
        Self { within: Some(Arc::clone(&writer.field)), ..self }
    }

    /// Returns the owner of the write side around a hold of the read side, if there is one: neither that writer
    /// nor waiting writers exclude the read.
    // S-27.
    #[must_use]
    pub fn writer(&self) -> Option<&str> {
        self.within.as_deref()
    }

    /// Returns the same owner, with that many permits.
    pub(crate) fn with_permits(&self, permits: u32) -> Self {
        Self { permits, ..self.clone() }
    }

    /// Returns [`as_field`](Self::as_field) as a shared string.
    pub(crate) fn shared_field(&self) -> Arc<str> {
        Arc::clone(&self.field)
    }

    /// Returns the field name in the lock's hash: `uuid:n`.
    #[must_use]
    pub fn as_field(&self) -> &str {
        &self.field
    }

    /// Returns the client's uuid and the number of the hold.
    pub(crate) fn client_and_number(&self) -> (&str, u64) {
        let (client, number) = self.field.rsplit_once(':').unwrap_or((&self.field, ""));
        (client, number.parse().unwrap_or(0))
    }

    /// Returns how many permits of a semaphore this hold has; one for all other kinds.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }
}

/// The parts in one piece, unless they need more room.
fn joined<'a, const N: usize>(room: &'a mut [u8], parts: [&str; N]) -> Option<&'a str> {
    let mut end = 0;
    for part in parts {
        let start = end;
        end += part.len();
        room.get_mut(start..end)?.copy_from_slice(part.as_bytes());
    }
    std::str::from_utf8(room.get(..end)?).ok()
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hold = self.field.rsplit(':').next().unwrap_or_default();
        write!(f, "OwnerId(…:{hold})")
    }
}
