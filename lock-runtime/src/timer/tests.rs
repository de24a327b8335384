//! Timers that are kept, and futures that need none.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use tokio::task::coop::{consume_budget, has_budget_remaining};

use super::*;

async fn fired(timer: &mut Timer) {
    poll_fn(|cx| timer.poll(cx)).await;
}

async fn timer(then: Instant) -> Timer {
    poll_fn(|cx| Poll::Ready(Timer::at(then, cx))).await
}

/// A timer that has been polled.
async fn polled(then: Instant) -> Timer {
    let mut timer = timer(then).await;
    assert!(poll_fn(|cx| Poll::Ready(timer.poll(cx).is_pending())).await);
    timer
}

fn kept() -> usize {
    let all = |kept: &Kept| kept.0.lock().groups.iter().map(Vec::len).sum();
    IDLE.with(|idle| idle.borrow().as_ref().map_or(0, |(_, kept)| all(kept)))
}

#[tokio::test(start_paused = true)]
async fn a_kept_timer_fires_at_its_new_time() {
    let start = Instant::now();
    let second = Duration::from_secs(1);
    drop(polled(start + second).await);
    for (then, expected) in [(3, 3), (2, 3), (4, 4)] {
        assert_eq!(kept(), 1);
        let mut next = timer(start + second * then).await;
        assert_eq!(kept(), 0, "not used again");
        fired(&mut next).await;
        assert_eq!(start.elapsed().as_secs(), expected);
    }
    // Earlier than the kept one.
    drop(polled(start + second * 9).await);
    fired(&mut timer(start + second * 5).await).await;
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_budget_is_woken() {
    while has_budget_remaining() {
        consume_budget().await;
    }
    let start = Instant::now();
    fired(&mut timer(start + Duration::from_secs(1)).await).await;
    assert_eq!(start.elapsed().as_secs(), 1);
}

#[derive(Default)]
struct Task(AtomicBool);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_timer_wakes_the_task_that_uses_it_now() {
    // One more than there are groups, so two are in the same.
    let tasks: Vec<_> = std::iter::repeat_with(Arc::<Task>::default).take(GROUPS + 1).collect();
    let soon = Instant::now() + Duration::from_secs(1);
    let mut timers = Vec::new();
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        let mut cx = Context::from_waker(&waker);
        let before = kept();
        let mut timer = Timer::at(soon, &cx);
        assert!(timer.poll(&mut cx).is_pending());
        if kept() < before {
            // It took over one that waits no more.
            timers.push((task, timer));
        }
    }
    assert!(!timers.is_empty(), "no two tasks are in one group");
    tokio::time::sleep_until(soon).await;
    for (task, _) in &timers {
        assert!(task.0.load(Ordering::Relaxed), "a task was not woken");
    }
}

#[cfg(feature = "redis")]
#[tokio::test(start_paused = true)]
async fn a_future_is_attended_until_its_timer_first_fires() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut polls = Vec::new();
    let counted = poll_fn(|_| {
        polls.push(start.elapsed().as_millis());
        Poll::<()>::Pending
    });
    let mut counted = attended_before(start, at(1200), counted);
    let mut said = Vec::new();
    let output = poll_fn(|cx| {
        let (polled, is_attended) = poll_attended(Pin::new(&mut counted), cx);
        said.push(is_attended);
        polled
    });
    assert_eq!(output.await, None);
    assert_eq!(said, [true, false, false, false]);
    assert_eq!(polls, [0, 500, 1000, 1200]);
    let ready = attended_before(start, at(1), std::future::ready(7));
    assert_eq!(ready.await, Some(7), "it is asked first");
}

/// A thread that outlives its runtime does not keep the runtime's descriptors open.
#[test]
fn no_timer_outlives_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = || runtime().expect("a runtime");
    for elsewhere in [false, true] {
        let ended = runtime();
        ended.block_on(async {
            let later = Instant::now() + Duration::from_secs(60);
            // The first one has the others kept.
            drop([polled(later).await, polled(later).await]);
            assert!(kept() > 0, "none is kept");
        });
        match elsewhere {
            true => std::thread::spawn(move || drop(ended)).join().expect("it ends"),
            false => drop(ended),
        }
        assert_eq!(kept(), 0, "dropped elsewhere: {elsewhere}");
    }
}

#[test]
fn a_timer_belongs_to_its_runtime() {
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let [soon, later] = [1, 60_000].map(|ms| Instant::now() + Duration::from_millis(ms));
            // The one that the first runtime has left behind would panic.
            fired(&mut timer(soon).await).await;
            drop([polled(later).await, polled(later).await]);
            assert_eq!(kept(), 2);
        });
    }
}
