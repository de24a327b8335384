//! [`Driver`]: what a blocking call waits with. A client that is made for blocking calls has a Tokio runtime of its own, in
//! a thread; its futures are polled on the caller's thread, where the chain of enclosing holds is.

use std::fmt;
use std::io;
use std::pin::pin;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::coop;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{LockError, StoreError, StoreErrorKind};

/// How long a runtime that is not used any more goes on with releases that are under way.
const LAST_RELEASES: Duration = Duration::from_millis(250);

/// Polls futures on the calling thread, inside of a runtime that another thread drives.
#[derive(Clone, Default)]
pub(crate) struct Driver {
    /// `None` for clients that were made for async code: they share one runtime.
    own: Option<Arc<OwnRuntime>>,
    /// The runtimes of the other clients of a multi lock, which have to go on for as long.
    _others: Option<Arc<[Self]>>,
}

impl Driver {
    /// Starts a runtime.
    pub(crate) fn start() -> Result<Self, LockError> {
        Ok(Self { own: Some(OwnRuntime::start()?), _others: None })
    }

    /// Fails if the calling thread runs async tasks now.
    ///
    /// # Errors
    ///
    /// [`LockError::InAsyncTask`].
    #[cfg(any(feature = "policy", feature = "redis"))]
    pub(crate) fn check() -> Result<(), LockError> {
        check_may_block()
    }

    /// Combines the drivers of several clients; futures are polled in the first one's runtime.
    pub(crate) fn of_all(drivers: Vec<Self>) -> Self {
        let own = drivers.first().and_then(|first| first.own.clone());
        Self { own, _others: Some(drivers.into()) }
    }

    /// Returns the client's own runtime, for its tasks.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.own.as_ref().map(|own| own.handle.clone())
    }

    /// Waits for the result of `future`.
    ///
    /// # Errors
    ///
    /// [`LockError::InAsyncTask`] if the calling thread runs async tasks now; `future` is then not polled.
    pub(crate) fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        check_may_block()?;
        self.enter(|| block_on(future))?
    }

    /// Calls `work` inside of the runtime.
    pub(crate) fn enter<T>(&self, work: impl FnOnce() -> T) -> Result<T, LockError> {
        let runtime = match &self.own {
            Some(own) => Arc::clone(own),
            None => shared()?,
        };
        if runtime.is_of_a_parent() {
            let message = "this process is a fork, and has no thread of the blocking client: make the client in it";
            return Err(StoreError::new(StoreErrorKind::Unavailable, message).into());
        }
        let _entered = runtime.handle.enter();
        Ok(work())
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("own", &self.own.is_some()).finish_non_exhaustive()
    }
}

/// Returns the runtime of all clients without one. It never ends.
fn shared() -> Result<Arc<OwnRuntime>, LockError> {
    static SHARED: Mutex<Option<Arc<OwnRuntime>>> = Mutex::new(None);
    let mut shared = SHARED.lock();
    if let Some(runtime) = &*shared {
        return Ok(Arc::clone(runtime));
    }
    let runtime = OwnRuntime::start()?;
    Ok(Arc::clone(shared.insert(runtime)))
}

/// A runtime of one thread, which ends when this is dropped.
struct OwnRuntime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
    /// The process that has the thread: a fork has only a copy of the rest.
    process: u32,
}

impl OwnRuntime {
    fn start() -> Result<Arc<Self>, LockError> {
        let failed = |error: io::Error| {
            let message = "the thread of the blocking client cannot be started";
            StoreError::new(StoreErrorKind::Unavailable, message).with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || {
            runtime.block_on(async {
                // An error means that `stop` was dropped, which is the signal.
                let _ = stopped.await;
                finish_tasks().await;
            });
            // Does not wait for the threads that look up host names.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("lock-runtime".to_owned()).spawn(work);
        let thread = Some(thread.map_err(failed)?);
        Ok(Arc::new(Self { handle, stop: Some(stop), thread, process: process::id() }))
    }

    fn is_of_a_parent(&self) -> bool {
        self.process != process::id()
    }
}

/// Waits until the tasks of clients that were dropped have ended: they end when nothing is left to release.
async fn finish_tasks() {
    let limit = Instant::now() + LAST_RELEASES;
    let ended = async {
        while Handle::current().metrics().num_alive_tasks() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    // A store that does not answer: the locks end with their leases, and the releaser logs it.
    let _ = timeout_at(limit, ended).await;
}

impl Drop for OwnRuntime {
    /// Waits for the last releases, but not where waiting would stop async tasks, nor for its own thread or one of a
    /// parent process.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && !self.is_of_a_parent()
            && thread.thread().id() != thread::current().id()
            && check_may_block().is_ok()
        {
            // An error would mean that a task panicked, which tokio has reported.
            let _ = thread.join();
        }
    }
}

/// Refuses to block a thread that is polling a task.
fn check_may_block() -> Result<(), LockError> {
    if Handle::try_current().is_ok() && is_polling() { Err(LockError::InAsyncTask) } else { Ok(()) }
}

/// Returns true if tokio polls a future on this thread, which `spawn_blocking` and `block_in_place` do not. Tokio only
/// tells whether a runtime is entered, which it also is on the threads of `spawn_blocking`; but a future that is polled has
/// a budget of at most 255 operations, and other code has none. A future inside of `unconstrained` has none, either.
fn is_polling() -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    // Dropped at the end, this restores the whole budget.
    let Poll::Ready(_budget) = coop::poll_proceed(&mut cx) else { return true };
    (0..=u8::MAX).any(|_| match coop::poll_proceed(&mut cx) {
        Poll::Ready(spent) => {
            spent.made_progress();
            false
        }
        Poll::Pending => true,
    })
}

/// Polls `future` on this thread until it is ready. Tokio's `block_on` would mark the thread as one that runs tasks.
fn block_on<F: Future>(future: F) -> F::Output {
    /// Remembers the wake, because code that `future` calls may park the thread, too, and so use up the unpark.
    struct Unpark {
        thread: Thread,
        is_woken: AtomicBool,
    }

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.is_woken.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }

    let unpark = Arc::new(Unpark { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => {
                while !unpark.is_woken.swap(false, Ordering::Acquire) {
                    thread::park();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_tasks_from_threads_that_may_block() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert!(check_may_block().is_ok());
        {
            let _entered = runtime.enter();
            assert!(check_may_block().is_ok(), "a runtime is entered, and nothing is polled");
        }
        let refused = |result: Result<(), LockError>| matches!(result, Err(LockError::InAsyncTask));
        runtime.block_on(async {
            for _ in 0..300 {
                assert!(refused(check_may_block()), "in `block_on`");
            }
            assert!(coop::has_budget_remaining(), "the check has spent the budget");
            let spawn = |check: fn() -> Result<(), LockError>| tokio::spawn(async move { check() });
            assert!(refused(spawn(check_may_block).await.unwrap()), "in a task");
            let in_place = spawn(|| tokio::task::block_in_place(check_may_block));
            assert!(in_place.await.unwrap().is_ok(), "in `block_in_place`");
            let blocking = tokio::task::spawn_blocking(check_may_block);
            assert!(blocking.await.unwrap().is_ok(), "in `spawn_blocking`");
        });
    }

    #[test]
    fn a_runtime_that_is_dropped_in_a_task_is_not_waited_for() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let driver = Driver::start().unwrap();
        // A task that does not end: a drop that waits takes as long as it may.
        driver.enter(|| tokio::spawn(std::future::pending::<()>())).unwrap();
        let start = tokio::time::Instant::now();
        runtime.block_on(async { drop(driver) });
        assert!(start.elapsed() < LAST_RELEASES, "{:?}", start.elapsed());
    }

    #[test]
    fn a_wake_counts_although_the_future_has_parked_the_thread() {
        let (done, ended) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut polls = 0;
            block_on(std::future::poll_fn(|cx| {
                polls += 1;
                if polls == 2 {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                // As a channel does that a log writer waits for.
                thread::park();
                Poll::Pending
            }));
            done.send(polls)
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(2));
    }

    #[test]
    fn a_fork_is_told_and_does_not_wait_for_a_thread_that_it_does_not_have() {
        let mut runtime = OwnRuntime::start().unwrap();
        // As in a fork, to which its process has another number.
        Arc::get_mut(&mut runtime).unwrap().process += 1;
        let driver = Driver { own: Some(runtime), _others: None };
        driver.own.as_ref().unwrap().handle.spawn(std::future::pending::<()>());
        let error = driver.wait(async { Ok(()) }).unwrap_err();
        let LockError::Store(error) = error else { panic!("{error:?}") };
        assert!(error.to_string().contains("fork"), "{error}");
        let start = Instant::now();
        drop(driver);
        assert!(start.elapsed() < LAST_RELEASES, "{:?}", start.elapsed());
    }
}
