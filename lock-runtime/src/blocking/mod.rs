//! Locks for code without async: command-line programs, threads, thread pools.
//!
//! # What a loss means here
//!
//! A hold is a lease, and it can be lost: the store cannot be reached for a whole lease, the lock was removed, or a fixed
//! lease has ended. The async [`run`](crate::LockGuard::run) then drops its body. *Nothing can stop a function that runs on
//! a thread.* It goes on, and another holder may run at the same time. So:
//!
//! - Call [`LockGuard::check`] before each step that must not overlap with another holder, such as in each turn of a
//!   loop. It returns [`LockError::Lost`](crate::LockError::Lost) from the deadline on, by a clock of this process and without
//!   a round trip.
//! - A step that is under way at the deadline ends late. Where that does harm, send [`LockGuard::token`] to the resource,
//!   which refuses tokens lower than the highest that it has seen ([`FencingToken`](crate::FencingToken)).
//! - [`LockGuard::run`] reports the loss when the body has ended, in place of its value, whatever
//!   [`OnLost`](crate::options::OnLost) says.
//!
//! The watchdog renews leases in a thread of the client, so it does not matter how long a body computes.
//!
//! # Use
//!
//! ```
//! use lock_runtime::LockError;
//! use lock_runtime::blocking::{LockClient, LockGuard};
//!
//! fn import(files: &[&str], hold: &LockGuard) -> Result<usize, LockError> {
//!     let mut rows = 0;
//!     for file in files {
//!         hold.check()?; // another process may have the lock from here on
//!         rows += file.len();
//!     }
//!     Ok(rows)
//! }
//!
//! let client = LockClient::in_memory()?; // or `LockClient::connect("redis://127.0.0.1:6379")?`
//! let rows = client.mutex("import").run(|hold| import(&["a.csv", "b.csv"], hold))??;
//! assert_eq!(rows, 10);
//! client.shutdown(std::time::Duration::from_secs(5))?;
//! # Ok::<_, LockError>(())
//! ```
//!
//! Each type is the blocking face of the async type of the same name, which does the work: kinds, options, errors, names
//! and tokens are the same, and so is the lock. [`#[distributed_lock]`](macro@crate::distributed_lock) on a plain `fn` uses
//! the client that its attribute names, else that of the enclosing [`LockClient::scope`], else the one that is
//! [installed](LockClient::install).
//!
//! # Beside async code
//!
//! A call that waits returns [`LockError::InAsyncTask`](crate::LockError::InAsyncTask) in a task, where it would stop the
//! other tasks of its thread. It may be made in [`spawn_blocking`](tokio::task::spawn_blocking) and in `block_in_place`.
//! A task under `tokio::task::unconstrained` is not recognised: it blocks its thread.
//!
//! A program has one installed client. If that is an async [`LockClient`](crate::LockClient), plain annotated functions use
//! it too; [`LockClient::from`] makes the blocking face of such a client for other calls.
//!
//! # Re-entry
//!
//! Code that [`run`](LockGuard::run) calls on its thread may acquire the same lock again: that is a re-entry, as in async
//! code. Another thread waits as any other holder would, unless its closure was wrapped by [`inherit`].
//!
//! A thread pool that steals work, such as rayon, may run *another* job on a thread that waits for a part of its own job.
//! If the wait is inside of `run`, the other job counts as called by it, and re-enters its locks. Inside of `run`, do not
//! wait for jobs of the pool on which the code runs; acquire a lock in each job instead.

// Every call that waits goes through `Driver::wait` (module `own_runtime`): it polls the async type's future on the caller's
// thread, where the chain of enclosing holds is. Bodies run outside of every runtime (S-6).

mod builder;
mod client;
mod guard;
mod latch;
mod locks;
mod multi_lock;
mod quorum;
mod rw_lock;
mod semaphore;

pub use self::builder::LockClientBuilder;
pub use self::client::LockClient;
pub use self::guard::LockGuard;
pub use self::latch::CountDownLatch;
pub use self::locks::{AnyLock, FairMutex, Mutex};
pub use self::multi_lock::{MultiLock, MultiMember};
pub use self::quorum::{Quorum, QuorumBuilder, QuorumLock};
pub use self::rw_lock::RwLock;
pub use self::semaphore::{Semaphore, SemaphorePermit};
use crate::scope;

/// Carries the caller's chain of holds and its client into another thread.
///
/// A closure that runs on another thread inherits nothing by itself, because it may outlive the holds around its maker.
/// Wrapped, it re-enters them for as long as their guards live. Threads that one hold has started exclude each other there:
/// see [`LockGuard::run`].
///
/// # Examples
///
/// ```
/// use lock_runtime::blocking::{LockClient, inherit};
/// use std::thread;
///
/// let client = LockClient::in_memory()?;
/// let job = client.mutex("job");
/// job.run(|_hold| {
///     // Without `inherit` this would wait for its own maker.
///     let nested = job.clone();
///     thread::spawn(inherit(move || nested.lock().is_ok())).join().unwrap()
/// })?;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
// S-6.
pub fn inherit<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let link = scope::inheritable();
    move || {
        let _entered = scope::enter(link);
        body()
    }
}

/// The types that users name in structs and move between threads are `Send` and `Sync`.
const _: () = {
    const fn send_sync_and_static<T: Send + Sync + 'static>() {}
    send_sync_and_static::<LockClient>();
    send_sync_and_static::<Mutex>();
    send_sync_and_static::<LockGuard>();
    send_sync_and_static::<SemaphorePermit>();
};
