//! [`RedisCommand`]: a command that the server runs only while a hold owns its lock.
// S-37.

use std::fmt;
use std::sync::Arc;

use tokio::task::coop::consume_budget;

use super::LockWatch;
use crate::error::{LockError, LossCause, StoreError, StoreErrorKind};
use crate::fence::{Fenced, RedisValue};
use crate::lease::{CommandUnderWay, Hold};
use crate::store::{Command, CommandRequest};

/// A Redis command that runs only if its hold owns the lock at that moment: made by
/// [`LockGuard::redis`](super::LockGuard::redis).
///
/// One script on the server compares the owner and runs the command, so there is no moment between the two: a process that was
/// paused past its lease writes nothing. The command uses the connection and the database of the client. Its keys are as they
/// are given, without the client's namespace.
///
/// The hold must exclude all others: that of a mutex, a fair mutex, the write side of a read/write lock, or several of these.
/// The store must be one Redis server, a master that sentinels name, or a cluster. In a cluster each key needs the hash tag of
/// the lock: for the lock `order:42` that is `{order:42}`, as in `{order:42}:total`. The client's user needs the rights to the command
/// and to its keys.
///
/// The server does nothing else while it runs the command, and the renewals of the client's locks wait for the answer: no long
/// commands, and no large answers. Commands that wait, such as `BLPOP`, are refused.
///
/// A write that was confirmed can still be lost with its server, as any write to Redis.
///
/// # Examples
///
/// ```
/// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
/// let hold = client.mutex("stock:7").lock().await?;
/// let left = hold.redis("HGET").key("stock").arg(7).run().await?.as_integer().unwrap_or(0);
/// hold.redis("HSET").key("stock").arg(7).arg(left - 1).run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a command is not sent until `run` is awaited"]
pub struct RedisCommand {
    watch: LockWatch,
    command: Command,
}

impl RedisCommand {
    pub(super) fn new(watch: LockWatch, name: String) -> Self {
        Self { watch, command: Command::new(name) }
    }

    /// Adds an argument that is a key, as text. A cluster runs no command on a key that is given as another argument; so there a key
    /// that is no text cannot be given.
    pub fn key(mut self, key: impl fmt::Display) -> Self {
        let key = key.to_string();
        self.command.args.push(key.clone().into_bytes());
        self.command.keys.push(key);
        self
    }

    /// Adds an argument: text, or a number.
    pub fn arg(self, arg: impl fmt::Display) -> Self {
        self.bytes(arg.to_string())
    }

    /// Adds an argument of any bytes.
    pub fn bytes(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.command.args.push(arg.into());
        self
    }

    /// Runs the command and returns the server's answer.
    ///
    /// The command is sent once. If its answer does not come, it is not repeated, and the hold passes to no other task of this
    /// process but is released to the store.
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the hold does not own the lock, or its guard is released; nothing ran.
    /// - [`LockError::NotExclusive`] for a read lock and a semaphore, and for several locks of which one is such; nothing was sent.
    /// - [`LockError::Store`] of the kind [`OutcomeUnknown`] if the answer did not come: the command may or may not have run. Although
    ///   [`is_retryable`](LockError::is_retryable) is true of it, repeat only what may run twice.
    /// - [`LockError::Store`] of the kind [`Protocol`] if it ran, and its answer is a list with an error in it.
    /// - [`LockError::Store`] of another kind if nothing ran, and the hold goes on: [`Command`], [`WrongType`], [`Denied`] and the
    ///   like, with the server's words, if the server refused the command; [`Command`] for a key of the lock's own, and above 4 000 arguments or 4 MiB; [`Config`]
    ///   if a key is in another slot of the cluster, on a quorum, in the store in memory, and for locks of several clients.
    ///
    /// [`OutcomeUnknown`]: crate::error::StoreErrorKind::OutcomeUnknown
    /// [`Command`]: crate::error::StoreErrorKind::Command
    /// [`WrongType`]: crate::error::StoreErrorKind::WrongType
    /// [`Denied`]: crate::error::StoreErrorKind::Denied
    /// [`Config`]: crate::error::StoreErrorKind::Config
    /// [`Protocol`]: crate::error::StoreErrorKind::Protocol
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if the future is dropped before it resolves, the command may or may not run, but only under this hold.
    pub async fn run(self) -> Result<RedisValue, LockError> {
        let Self { watch, command } = self;
        watch.fences()?;
        command.check(&watch.hold().target)?;
        watch.check()?;
        let leases = watch.leases()?;
        leases.check_caller()?;
        consume_budget().await;
        let hold = watch.hold();
        let holds = hold.parts();
        let is_ours =
            |part: &Arc<Hold>| part.owner.client_and_number().0 == hold.owner.client_and_number().0;
        if !holds.iter().all(is_ours) {
            let message = "these locks are on the servers of several clients, and no command can be run on all of them at once; \
                           hold a lock of one client for it";
            return Err(StoreError::new(StoreErrorKind::Config, message).into());
        }
        // Begun before the check: a hold that passes on between the two would make this a command of the next holder.
        let under_way: Vec<_> = holds.iter().map_while(|hold| hold.begin_command()).collect();
        let held = match under_way.len() == holds.len() {
            true => watch.check(),
            false => Err(watch.released()),
        };
        if let Err(lost) = held {
            under_way.into_iter().for_each(CommandUnderWay::conclude);
            return Err(lost);
        }
        let of_part = |part: &Arc<Hold>| (Arc::clone(&part.target), part.owner.clone());
        let (holds, timeout) = (holds.iter().map(of_part), leases.timing.command_timeout);
        let request = CommandRequest::new(holds.collect(), command, timeout);
        let outcome = leases.store.command(request).await;
        if !matches!(&outcome, Err(error) if error.kind().may_have_run()) {
            under_way.into_iter().for_each(CommandUnderWay::conclude);
        }
        match outcome? {
            Some(answer) => Ok(answer),
            None => {
                // A guard that was released meanwhile has lost nothing.
                watch.check()?;
                // The store does not tell which of several is gone, and without one there is no hold of all.
                let not_owner = |_, part: &Arc<Hold>| leases.watchdog.not_owner(part);
                Err(hold.lost_error(hold.parts().iter().fold(LossCause::NotOwner, not_owner)))
            }
        }
    }
}

impl fmt::Debug for RedisCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCommand")
            .field("watch", &self.watch)
            .field("command", &self.command)
            .finish()
    }
}
