//! Few requests and many.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::pump::{Crowd, put_behind};
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

/// Otherwise the next batch lacks what the last of them asks.
#[test]
fn the_pump_runs_behind_all_callers() {
    const PUMP: usize = 4;
    for (is_current_thread, mut builder) in
        [(true, Builder::new_current_thread()), (false, Builder::new_multi_thread())]
    {
        let runtime = builder.worker_threads(1).build().expect("a runtime");
        let all = async move {
            let (sleep, mut asleep) = mpsc::unbounded_channel::<Waker>();
            let (run, mut ran) = mpsc::unbounded_channel();
            let mut tasks = JoinSet::new();
            let mut wakers = Vec::new();
            for number in 0..=PUMP {
                let (mut sleep, run) = (Some(sleep.clone()), run.clone());
                tasks.spawn(async move {
                    let slept = poll_fn(|cx| {
                        let Some(sleep) = sleep.take() else { return Poll::Ready(()) };
                        sleep.send(cx.waker().clone()).expect("received below");
                        Poll::Pending
                    });
                    slept.await;
                    run.send(number).expect("received below");
                });
                wakers.push(asleep.recv().await.expect("a task that sleeps"));
            }
            let pump = wakers.pop().expect("the last task");
            put_behind(&mut wakers, pump, is_current_thread);
            wakers.into_iter().for_each(Waker::wake);
            tasks.join_all().await;
            let mut order = Vec::new();
            while let Ok(number) = ran.try_recv() {
                order.push(number);
            }
            order
        };
        let order = runtime.block_on(runtime.spawn(all)).expect("no panic");
        assert_eq!(order.last(), Some(&PUMP), "{order:?}, current thread: {is_current_thread}");
    }
}
