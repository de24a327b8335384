//! The contenders: each acquires and releases a lock in its own way.

mod bare;
mod ours;
mod peer;

pub(crate) use self::bare::{Bare, Ping};
pub(crate) use self::ours::{Ours, OursFair};
pub(crate) use self::peer::Peer;
use crate::Result;

/// One task's handle on one lock. All clones are handles on the same lock.
pub(crate) trait Contender: Clone + Send + 'static {
    /// The name in the table.
    const NAME: &'static str;

    /// The guard.
    type Hold: Send;

    /// Acquires the lock, and waits if it is busy.
    fn take(&mut self) -> impl Future<Output = Result<Self::Hold>> + Send;

    /// Releases the lock and waits for the confirmation.
    fn give(&mut self, hold: Self::Hold) -> impl Future<Output = Result<()>> + Send;
}
