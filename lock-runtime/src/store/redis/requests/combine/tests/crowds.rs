//! Few requests and many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::super::pump::Crowd;
use super::*;

/// Until there are many. After a crowd, only once there have been few for several batches: all of a crowd may be answered
/// at once.
#[test]
fn a_few_requests_go_alone() {
    let mut queue = Queue::default();
    queue.alone = FEW - 1;
    assert!(queue.lets_one_go_alone());
    queue.alone = FEW;
    assert!(!queue.lets_one_go_alone());

    let mut queue = Queue::default();
    let mut batches = 0;
    let mut send = |queue: &mut Queue, requests: usize| {
        let keys: Vec<_> =
            (0..requests).map(|_| add(queue, take("a"), Instant::now() + OVERDUE)).collect();
        assert!(!queue.lets_one_go_alone(), "others wait");
        queue.take_batch(MAX_BATCH);
        for key in keys {
            queue.remove(key);
        }
        batches += 1;
    };
    send(&mut queue, 4 * FEW);
    while !queue.lets_one_go_alone() {
        send(&mut queue, 1);
    }
    assert_eq!(batches, 3);
}

/// A caller that counts how often it is woken.
#[derive(Default)]
struct Caller(AtomicUsize);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// When the thread has nothing else to do; by the pump, if it is busy for a millisecond, and when the pump ends.
// S-34.
#[tokio::test]
async fn a_crowd_is_woken_together() {
    let callers = [(); 3].map(|()| Arc::<Caller>::default());
    let crowd = |latest| {
        Crowd::wake_soon(callers.iter().map(|caller| Arc::clone(caller).into()).collect(), latest)
    };
    let woken = || callers.each_ref().map(|caller| caller.0.load(Ordering::Relaxed));

    let now = Instant::now();
    let idle = crowd(now + OVERDUE);
    assert_eq!((woken(), idle.asleep_until(now)), ([0; 3], Some(now + OVERDUE)));
    tokio::task::yield_now().await;
    assert_eq!((woken(), idle.asleep_until(now)), ([1; 3], None));

    let busy = crowd(now);
    assert_eq!((busy.asleep_until(now), woken()), (None, [2; 3]));

    drop(crowd(now + OVERDUE));
    assert_eq!(woken(), [3; 3]);
    tokio::task::yield_now().await;
    assert_eq!(woken(), [3; 3]);
}
