//! Blocking calls in place of async ones: each call that waits for a lock is made on a thread of its own.

use std::thread;

use lock_runtime::scope;
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::prelude::*;

/// Calls `call` on a thread of its own, once the result is polled, inside of the holds around that poll. The first poll
/// waits until the call has joined the queue, as the cases expect of an acquire. If another task leaves the queue at the same
/// time, that may take until the next one joins or leaves, at most for the bound.
pub(super) async fn on_a_thread<T: Send + 'static>(
    client: LockClient,
    call: impl FnOnce() -> T + Send + 'static,
) -> T {
    // The waiter that asks the store is missing from the list for moments.
    let listed = || client.admin().waiting().len();
    let looks = (0..4).map(|_| {
        thread::sleep(Duration::from_micros(50));
        listed()
    });
    let waited = looks.max().unwrap_or_default();
    let start = tokio::time::Instant::now();
    // A re-entry that waits for others inside of its hold is not listed.
    let bound = if LockGuard::current().is_some() { ms(100) } else { SOON };
    let (done, mut outcome) = oneshot::channel();
    let call = scope::inherit_blocking(call);
    thread::spawn(move || done.send(call()));
    // Other tasks go on meanwhile: the one that holds the lock may have to be polled to release it.
    let early = block_in_place(|| {
        while start.elapsed() < bound && listed() <= waited {
            if let Ok(outcome) = outcome.try_recv() {
                return Some(outcome);
            }
            thread::sleep(Duration::from_micros(200));
        }
        None
    });
    match early {
        Some(outcome) => outcome,
        None => outcome.await.expect("the thread does not panic"),
    }
}
