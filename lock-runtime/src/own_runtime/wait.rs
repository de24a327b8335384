//! Waiting for a future on a thread: whether the thread may block, and the poll loop.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::Handle;
use tokio::task::coop;

use crate::error::LockError;

/// Refuses to block a thread that is polling a task.
pub(super) fn check_may_block() -> Result<(), LockError> {
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
pub(super) fn until_ready<F: Future>(future: F) -> F::Output {
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
    use std::time::Duration;

    use tokio::runtime::Builder;

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
    fn a_wake_counts_although_the_future_has_parked_the_thread() {
        let (done, ended) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let mut polls = 0;
            until_ready(std::future::poll_fn(|cx| {
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
}
