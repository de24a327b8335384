//! Who is measured: each takes a lock and gives it back, in its own way.

mod bare;
mod ours;
mod peer;

pub(crate) use self::bare::{Bare, Ping};
pub(crate) use self::ours::Ours;
pub(crate) use self::peer::Peer;
use crate::Result;

/// One task's handle on one lock. All clones are handles on the same lock.
pub(crate) trait Contender: Clone + Send + 'static {
    /// What the table calls it.
    const NAME: &'static str;

    /// What is in hand while the lock is.
    type Hold: Send;

    /// Takes the lock, waiting for it if others have it.
    fn take(&mut self) -> impl Future<Output = Result<Self::Hold>> + Send;

    /// Gives the lock back, and knows afterwards that it is free.
    fn give(&mut self, hold: Self::Hold) -> impl Future<Output = Result<()>> + Send;
}
