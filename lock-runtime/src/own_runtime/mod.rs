//! [`block_on`], by which all calls that block wait, and the runtime that their futures use.
//! A blocking call polls the async future on the caller's thread, where the chain of enclosing holds is; connections and
//! timers run in a thread that all clients share. Bodies run outside of every runtime.

mod wait;

use std::cell::Cell;
use std::io;
use std::process;
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};

use crate::error::{LockError, StoreError, StoreErrorKind};

/// Waits on the calling thread for a future of this library, in a program without async: for whatever has no blocking
/// method, such as `try_lock`, [`extend`](crate::LockGuard::extend), a latch, or a client of a cluster.
///
/// Connections, timers and renewals run in a thread that starts with the first such call and serves all clients of the
/// process. A client that is made inside of `block_on`, or by
/// [`connect_blocking`](crate::LockClientBuilder::connect_blocking), keeps its renewals there, so it does not matter how
/// long the caller computes. The futures of an async program's client work, too, while its own runtime is running.
///
/// End `main` with [`blocking_shutdown`](crate::LockClient::blocking_shutdown): a dropped guard releases its lock in the
/// background, and a process that exits first leaves the lock held until its lease ends.
///
/// # What a loss means
///
/// A hold is a lease, and it can be lost: the store cannot be reached for a whole lease, the lock was removed, or a fixed
/// lease has ended. The async [`run`](crate::LockGuard::run) then drops its body. *Nothing can stop a function that runs
/// on a thread.* It goes on, and another holder may run at the same time. So:
///
/// - Call [`LockGuard::check`](crate::LockGuard::check) before each step that must not overlap with another holder, such as
///   in each turn of a loop. It returns [`LockError::Lost`] from the deadline on, by a clock of this process and without a
///   round trip.
/// - A step that is under way at the deadline ends late. Where that does harm, send
///   [`LockGuard::token`](crate::LockGuard::token) to the resource, which refuses tokens lower than the highest that it has
///   seen ([`FencingToken`](crate::FencingToken)).
/// - [`run_blocking`](crate::Mutex::run_blocking) reports the loss when the body has ended, in place of its value, whatever
///   [`OnLost`](crate::options::OnLost) says.
///
/// # Beside async code
///
/// A call that blocks returns [`LockError::InAsyncTask`] in a task, where it would stop the other tasks of its thread. It
/// may be made in [`spawn_blocking`](tokio::task::spawn_blocking) and in `block_in_place`. A task under
/// `tokio::task::unconstrained` is not recognised: it blocks its thread.
///
/// # Re-entry
///
/// Code that `run_blocking` calls on its thread may acquire the same lock again: that is a re-entry, as in async code.
/// Another thread waits as any other holder would, unless its closure was wrapped by
/// [`inherit_blocking`](crate::scope::inherit_blocking).
///
/// A thread pool that steals work, such as rayon, may run *another* job on a thread that waits for a part of its own job.
/// If the wait is inside of `run_blocking`, the other job counts as called by it, and re-enters its locks. Inside of
/// `run_blocking`, do not wait for jobs of the pool on which the code runs; acquire a lock in each job instead.
///
/// # Forks
///
/// A process that forks leaves the thread behind, so a program that becomes a daemon has to make its client after that. In
/// the fork, calls of a client of its parent return [`LockError::Store`], and guards that are dropped release nothing.
///
/// # Errors
///
/// Those of `future`; [`LockError::InAsyncTask`] in an async task, and then `future` is not polled; [`LockError::Store`]
/// if the thread cannot be started.
///
/// # Examples
///
/// ```
/// use lock_runtime::{LockClient, LockError, LockGuard, block_on};
///
/// fn import(files: &[&str], hold: &LockGuard) -> Result<usize, LockError> {
///     let mut rows = 0;
///     for file in files {
///         hold.check()?; // another process may have the lock from here on
///         rows += file.len();
///     }
///     Ok(rows)
/// }
///
/// let client = LockClient::in_memory(); // or `LockClient::builder().connect_blocking("redis://127.0.0.1:6379")?`
/// let rows = client.mutex("import").run_blocking(|hold| import(&["a.csv", "b.csv"], hold))??;
/// assert_eq!(rows, 10);
///
/// let guard = block_on(client.mutex("import").try_lock())?.expect("it is free");
/// guard.blocking_release()?;
/// client.blocking_shutdown(std::time::Duration::from_secs(5))?;
/// # Ok::<_, LockError>(())
/// ```
// S-13.
pub fn block_on<T>(future: impl Future<Output = Result<T, LockError>>) -> Result<T, LockError> {
    wait::check_may_block()?;
    let home = Home::of_process()?;
    let _entered = home.handle.enter();
    let _inside = Inside::enter();
    wait::until_ready(future)
}

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that polls a future in [`block_on`].
struct Inside {
    was_inside: bool,
}

impl Inside {
    fn enter() -> Self {
        Self { was_inside: IS_INSIDE.replace(true) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(self.was_inside);
    }
}

/// The process that made a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) fn of_this_process() -> Self {
        Self(process::id())
    }

    /// Refuses a call in a fork of that process: it would share the connections of its parent, and has none of its tasks.
    /// Only a call that blocks, or of a client with a `home`, asks the operating system: other calls need a tokio runtime, and
    /// none survives a fork.
    #[inline]
    pub(crate) fn check(self, home: Option<&Home>) -> Result<(), LockError> {
        if home.is_none() && !IS_INSIDE.get() || self.0 == process::id() {
            return Ok(());
        }
        let message = "this process is a fork and has no connections and no thread for the client of its parent: make the \
                       client in it";
        Err(StoreError::new(StoreErrorKind::Unavailable, message).into())
    }
}

/// The runtime of blocking calls, in a thread that lives as long as the process.
// One for each client would be a field of every lock and guard, and a guard that outlives its client would need rules of its own.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) handle: Handle,
    /// The process that has the thread: a fork has only a copy of the rest.
    process: u32,
}

static HOME: Mutex<Option<Home>> = Mutex::new(None);

impl Home {
    /// Returns the runtime of this process; the first call starts it.
    fn of_process() -> Result<Self, LockError> {
        let mut started = HOME.lock();
        match &*started {
            Some(home) if !home.is_of_a_parent() => Ok(home.clone()),
            _ => Ok(started.insert(Self::start()?).clone()),
        }
    }

    /// Returns it where a blocking call makes a client.
    pub(crate) fn entered() -> Option<Self> {
        let current = Handle::try_current().ok()?;
        HOME.lock().clone().filter(|home| home.handle.id() == current.id())
    }

    fn start() -> Result<Self, LockError> {
        let failed = |error: io::Error| {
            let message = "the thread of the blocking calls cannot be started";
            StoreError::new(StoreErrorKind::Unavailable, message).with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let work = move || runtime.block_on(std::future::pending::<()>());
        thread::Builder::new().name("lock-runtime".to_owned()).spawn(work).map_err(failed)?;
        Ok(Self { handle, process: process::id() })
    }

    fn is_of_a_parent(&self) -> bool {
        self.process != process::id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_told_and_has_a_thread_of_its_own() {
        let mut home = Home::of_process().unwrap();
        // As in a fork, to which its process has another number.
        home.process += 1;
        let parent = Origin(process::id() + 1);
        let refused = |result: Result<(), LockError>| {
            let Err(LockError::Store(error)) = result else { panic!("{result:?}") };
            assert!(error.to_string().contains("fork"), "{error}");
        };
        refused(parent.check(Some(&home)));
        refused(block_on(async { parent.check(None) }));
        parent.check(None).unwrap();
        Origin::of_this_process().check(Some(&home)).unwrap();
        let of_parent = HOME.lock().replace(home).unwrap();
        block_on(async { Ok(()) }).unwrap();
        let own = HOME.lock().replace(of_parent).unwrap();
        assert_eq!(own.process, process::id());
    }
}
