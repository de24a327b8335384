//! Tasks that meet at a key, in every order.

mod bounded;
pub mod hand_over;
mod store;
pub mod turns;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use shuttle::{Config, FailurePersistence, Runner};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::bounded::Bounded;
use crate::admin::waits::Asker;
use crate::key::LockKey;
use crate::options::Lease;
use crate::queue::{Caller, Terms, WaitsFor};
use crate::store::Target;

const LEASE: Lease = Lease::Watchdog(Duration::from_secs(10));

/// Runs the scenario in every order of its tasks that departs at most `departures` times from the plain one, in which a
/// task runs until it waits and then the next one. Returns how many orders those are.
///
/// A task can pause wherever it locks a mutex or waits. A run in which all tasks wait for ever fails.
///
/// # Panics
///
/// When the scenario fails in one of the orders.
pub fn explore(departures: usize, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.failure_persistence = FailurePersistence::Print;
    Runner::new(Bounded::new(departures), config).run(move || {
        tokio::time::reset();
        scenario();
    })
}

fn target() -> Arc<Target> {
    Target::mutex(LockKey::new("order:42").expect("a valid name"))
}

const TERMS: Terms = Terms { lease: LEASE, replicas: 0, permits: 1 };

/// Who waits, which no scenario looks at.
const SOMEBODY: Asker = Asker { site: None, around: None };

fn a_caller() -> Caller {
    let (waits_for, place, now) = (WaitsFor::Turn, None, Instant::now());
    Caller { terms: TERMS, max_queue: 8, waits_for, place, asks_first: true, now }
}

/// What the holders of a lock change: the place where two at once are found.
#[derive(Default)]
struct Inside {
    holders: AtomicUsize,
    turns: AtomicUsize,
}

impl Inside {
    /// Spends some time as the holder.
    async fn work(&self) {
        assert_eq!(self.holders.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        shuttle::future::yield_now().await;
        self.holders.fetch_sub(1, Ordering::SeqCst);
        self.turns.fetch_add(1, Ordering::SeqCst);
    }

    fn turns(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }
}

/// The output of `future`, or `None` once it is cancelled; then the future is dropped.
async fn unless<F: Future>(
    cancelled: Option<oneshot::Receiver<()>>,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let Some(cancelled) = cancelled else { return Some(future.await) };
    let mut cancelled = pin!(cancelled);
    poll_fn(|cx| {
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Some)
    })
    .await
}
