//! What errors say of holders and holds.

use std::fmt;
use std::time::Duration;

use super::rounded;

/// Why a call that does not wait found the lock busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BusyReason {
    /// Another holder has it, or another waiter goes first, and the call does not wait.
    Held,
    /// `max_waiters` tasks already wait for it.
    // S-18.
    TooManyWaiters,
}

impl fmt::Display for BusyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "another holder has it",
            Self::TooManyWaiters => "too many callers wait for it already",
        })
    }
}

/// How a loss was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// The lease ended by this process's own clock, before any renewal was confirmed.
    Deadline,
    /// The store answered that this hold does not own the key.
    NotOwner,
    /// Its guard was released or dropped in time: so a [`LockWatch`](crate::guard::LockWatch) ends.
    Released,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "its lease ran out",
            Self::NotOwner => "the store no longer knows it as the owner",
            Self::Released => "its guard was released",
        })
    }
}

/// A hold of this process's own, which a call of this process waited for.
///
/// Prints as `this process acquired it 3.2s ago at src/orders.rs:42:18`.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, LockError, LockOptions};
/// use std::time::Duration;
///
/// let client = LockClient::in_memory();
/// let _guard = client.mutex("order:42").lock().await?;
/// let brief = LockOptions::new().wait(Duration::from_millis(20));
/// let late = client.mutex("order:42").with(brief).lock().await;
/// let Err(LockError::Timeout { local_holder: Some(holder), .. }) = late else { panic!() };
/// println!("held since {:?} by {:?}", holder.held_for, holder.site);
/// # Ok::<_, LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalHolder {
    /// Where the program acquired it, if that is known.
    pub site: Option<String>,
    /// How long ago, hand-offs to other tasks of this process included.
    pub held_for: Duration,
}

impl fmt::Display for LocalHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this process acquired it {:?} ago", rounded(self.held_for))?;
        match &self.site {
            Some(site) => write!(f, " at {site}"),
            None => Ok(()),
        }
    }
}
