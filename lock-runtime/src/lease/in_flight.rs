//! [`InFlight`]: what the tasks of a client have asked of the store, where a successor finds it.
//!
//! A runtime that is not driven neither polls nor drops the futures of its tasks, so what these have counted would stay
//! counted. The task that takes the place of another therefore drops that one's futures itself: each undoes then what it
//! has marked, as it does at the end of its runtime.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;

/// `None` once its task has ended, or another has taken its place.
// Locked while its task polls the futures in it, which lock whatever they need. So no other task waits for it: a successor only
// tries it, and takes the futures out. What is taken out is dropped after the unlock.
type Futures = Mutex<Option<FuturesUnordered<BoxFuture<'static, ()>>>>;

/// The futures of the last task that has begun.
#[derive(Default)]
pub(super) struct InFlight {
    latest: Mutex<Latest>,
}

#[derive(Default)]
struct Latest {
    /// The task's.
    number: u64,
    futures: Arc<Futures>,
}

impl InFlight {
    /// For the task of that number, at its first poll: a runtime that has ended drops a task before.
    pub(super) fn begin(&self, number: u64) -> Begun {
        let futures: Arc<Futures> = Arc::new(Mutex::new(Some(FuturesUnordered::new())));
        // Two tasks may begin in any order: the one with the smaller number finds that it is not the latest, and takes nothing
        // over.
        let mut latest = self.latest.lock();
        // Otherwise a later task was polled first, and this one ends.
        let is_latest = number > latest.number;
        let earlier = is_latest.then(|| {
            latest.number = number;
            std::mem::replace(&mut latest.futures, Arc::clone(&futures))
        });
        Begun { futures, earlier }
    }
}

/// The futures of one task, which are dropped with it.
pub(super) struct Begun {
    futures: Arc<Futures>,
    /// Those of the task before, until they are dropped.
    earlier: Option<Arc<Futures>>,
}

impl Begun {
    /// Drops what the task before has begun. If that is being polled now, it is for a later call: it may take long, and its
    /// task is alive and drops it too.
    pub(super) fn end_earlier(&mut self) {
        let Some(taken) =
            self.earlier.as_ref().and_then(|earlier| Some(earlier.try_lock()?.take()))
        else {
            return;
        };
        self.earlier = None;
        // After the unlock: this ends releases and renewals.
        drop(taken);
    }

    /// Adds a future; drops it if another task has taken this one's place.
    pub(super) fn push(&self, future: BoxFuture<'static, ()>) {
        let mut futures = self.futures.lock();
        match &mut *futures {
            Some(futures) => futures.push(future),
            // Its successor came between the look at the number and this. The future puts back what it was to do.
            None => {
                drop(futures);
                drop(future);
            }
        }
    }

    /// Waits for the next of the futures to end; `None` if there is none.
    pub(super) async fn next(&self) -> Option<()> {
        // Locked for one poll at a time: between two polls a successor finds it free.
        poll_fn(|cx| match &mut *self.futures.lock() {
            Some(futures) => futures.poll_next_unpin(cx),
            None => Poll::Ready(None),
        })
        .await
    }

    /// True if nothing is under way, of the task before neither.
    pub(super) fn is_empty(&self) -> bool {
        self.earlier.is_none()
            && self.futures.lock().as_ref().is_none_or(FuturesUnordered::is_empty)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // Waits at most for a successor that takes them out.
        let futures = self.futures.lock().take();
        drop(futures);
        self.end_earlier();
    }
}
