//! A command of the caller's own, which a store runs under a hold.
// S-37.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::owner::OwnerId;
use super::target::Target;
use crate::error::{StoreError, StoreErrorKind};

/// The most arguments of a command: a script that passes on more fails.
const MAX_ARGS: usize = 4_000;

/// The most bytes of a command: the renewals of the client's locks wait behind it on their connection.
const MAX_BYTES: usize = 4 << 20;

/// A command with its arguments.
#[derive(Clone)]
#[non_exhaustive]
pub struct Command {
    /// Its name.
    pub name: String,
    /// Those of its arguments that are keys.
    pub keys: Vec<String>,
    /// All its arguments, in order.
    pub args: Vec<Vec<u8>>,
}

impl Command {
    /// A command without arguments.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), keys: Vec::new(), args: Vec::new() }
    }

    /// Fails for one that is too long to be sent, and for one that names a key of its own lock.
    pub(crate) fn check(&self, target: &Target) -> Result<(), StoreError> {
        let refused = |problem: String| {
            let message = format!("the command {:?} has {problem}", self.name);
            Err(StoreError::new(StoreErrorKind::Command, message))
        };
        let mut own = target.locks().flat_map(|lock| {
            std::iter::once(lock.key().as_str()).chain(lock.companions().iter().map(String::as_str))
        });
        if let Some(own) = own.find(|own| self.keys.iter().any(|key| key == own)) {
            return refused(format!(
                "the key {own:?}, which is the lock's own; give the data another name"
            ));
        }
        let bytes = self.args.iter().map(Vec::len).sum::<usize>();
        let problem = match self.args.len() {
            args if args > MAX_ARGS => format!("{args} arguments, and {MAX_ARGS} are allowed"),
            _ if bytes > MAX_BYTES => format!("{bytes} bytes, and {MAX_BYTES} are allowed"),
            _ => return Ok(()),
        };
        refused(format!("{problem}; write in smaller parts"))
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without its arguments, which may be secret.
        f.debug_struct("Command")
            .field("name", &self.name)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// A request to run a command while its owners hold their locks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandRequest {
    /// The locks, and the owner of the hold of each.
    pub holds: Vec<(Arc<Target>, OwnerId)>,
    /// What to run.
    pub command: Arc<Command>,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

impl CommandRequest {
    /// A request to run `command` once.
    #[must_use]
    pub fn new(holds: Vec<(Arc<Target>, OwnerId)>, command: Command, timeout: Duration) -> Self {
        Self { holds, command: Arc::new(command), timeout }
    }

    /// Each lock, and the owner of its hold.
    #[cfg(feature = "redis")]
    pub(crate) fn locks(&self) -> impl Iterator<Item = (&Target, &OwnerId)> {
        self.holds.iter().flat_map(|(target, owner)| target.locks().map(move |lock| (lock, owner)))
    }
}
