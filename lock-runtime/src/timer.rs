//! Timers that are used again, and waits that need none.
//!
//! Tokio registers a timer under a lock, and removes one that is dropped early under the same lock: that takes longer
//! than all else that a request waits for. So a timer that is not needed any more stays registered, and serves the next
//! wait of its task on this thread, or of another task. If it fires too early for that, it is moved then: most waits end
//! before. While it is registered for the same task, that needs no poll.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// A thread keeps its timers in so many groups, by their tasks.
const GROUPS: usize = 64;

/// The most timers that a thread keeps.
const MOST: usize = 256;

thread_local! {
    static IDLE: RefCell<Idle> =
        const { RefCell::new(Idle { runtime: None, kept: 0, groups: [const { Vec::new() }; GROUPS] }) };
}

thread_local! {
    static ATTENDED: Cell<bool> = const { Cell::new(false) };
}

/// How often a future that has said it is [`attended`] is woken, so that it needs no timer to look around.
pub(crate) const ATTENDED_EVERY: Duration = Duration::from_millis(500);

/// Says that the future being polled is woken after [`ATTENDED_EVERY`] at the latest.
pub(crate) fn attended() {
    ATTENDED.set(true);
}

/// Polls a future. Also returns whether it, or a future inside of it, is [`attended`] until its next poll.
pub(crate) fn poll_attended<F: Future>(
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> (Poll<F::Output>, bool) {
    ATTENDED.set(false);
    let polled = future.poll(cx);
    (polled, ATTENDED.take())
}

/// Timers of one runtime. A thread that runs another one meanwhile starts anew.
struct Idle {
    runtime: Option<Id>,
    /// How many all groups have.
    kept: usize,
    groups: [Vec<Pin<Box<Registered>>>; GROUPS],
}

impl Idle {
    fn group(&mut self, runtime: Id, woken: Woken) -> &mut Vec<Pin<Box<Registered>>> {
        if self.runtime != Some(runtime) {
            self.groups.iter_mut().for_each(Vec::clear);
            self.kept = 0;
            self.runtime = Some(runtime);
        }
        // Addresses of tasks differ in some bits only. Multiplied by 2^64 divided by the golden ratio, they differ in the
        // upper ones, which choose the group (Knuth, The Art of Computer Programming, volume 3, section 6.4).
        let spread = (woken.data as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &mut self.groups[(spread >> 32) as usize % GROUPS]
    }

    /// A timer of that task, or another one.
    fn take(&mut self, runtime: Id, woken: Woken) -> Option<Pin<Box<Registered>>> {
        let group = self.group(runtime, woken);
        let own = group.iter().rposition(|timer| timer.woken == Some(woken));
        let at = own.or_else(|| group.len().checked_sub(1))?;
        let taken = group.swap_remove(at);
        self.kept -= 1;
        Some(taken)
    }

    fn keep(&mut self, woken: Woken, registered: Pin<Box<Registered>>) {
        let group = self.group(registered.runtime, woken);
        group.push(registered);
        self.kept += 1;
    }
}

/// What a waker wakes: two wakers are the same if these parts are, as [`Waker::will_wake`] says. That holds as long as one
/// of them exists.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Woken {
    data: usize,
    vtable: usize,
}

impl Woken {
    fn by(waker: &Waker) -> Self {
        Self { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}

pin_project! {
    /// A timer of tokio, and when it is to fire.
    struct Registered {
        // It may fire earlier.
        #[pin]
        sleep: Sleep,
        then: Instant,
        // What it wakes, if it has been polled since it was last moved. Until it fires it keeps that waker.
        woken: Option<Woken>,
        runtime: Id,
    }
}

impl Registered {
    fn new(runtime: Id, then: Instant) -> Pin<Box<Self>> {
        Box::pin(Self { sleep: sleep_until(then), then, woken: None, runtime })
    }

    fn reset(self: Pin<&mut Self>, then: Instant) {
        let this = self.project();
        *this.then = then;
        if this.sleep.deadline() > then {
            this.sleep.reset(then);
            *this.woken = None;
        }
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let woken = Woken::by(cx.waker());
        // A task dump, which only unstable tokio has, polls without registering.
        let is_registered = *this.woken == Some(woken) && !cfg!(tokio_unstable);
        if is_registered && !this.sleep.is_elapsed() {
            return Poll::Pending;
        }
        // If a poll panics, it may have kept no waker.
        *this.woken = None;
        loop {
            // Not with the task's budget: without one left, it would say that it is pending, and not keep the waker.
            let polled = Pin::new(&mut unconstrained(this.sleep.as_mut())).poll(cx);
            if polled.is_pending() || this.sleep.deadline() >= *this.then {
                // It keeps a clone, which may be another waker: then nothing is known of its address.
                *this.woken = cx.waker().clone().will_wake(cx.waker()).then_some(woken);
                return polled;
            }
            this.sleep.as_mut().reset(*this.then);
        }
    }
}

/// A timer for a wait that usually ends earlier. Empty only while it is dropped.
pub(crate) struct Timer(Option<Pin<Box<Registered>>>);

impl Timer {
    /// A timer that fires then, and wakes the task that is polled. The caller is in a runtime.
    pub(crate) fn at(then: Instant, cx: &Context<'_>) -> Self {
        Self::on(Handle::current().id(), then, cx)
    }

    /// The same, for a caller that knows in which runtime it is.
    pub(crate) fn on(runtime: Id, then: Instant, cx: &Context<'_>) -> Self {
        // The thread may be ending, or timers of it may be dropped right now, which may drop tasks.
        let idle =
            IDLE.try_with(|idle| idle.try_borrow_mut().ok()?.take(runtime, Woken::by(cx.waker())));
        let Some(mut registered) = idle.ok().flatten() else {
            return Self(Some(Registered::new(runtime, then)));
        };
        registered.as_mut().reset(then);
        Self(Some(registered))
    }

    /// Moves it.
    pub(crate) fn reset(&mut self, then: Instant) {
        if let Some(registered) = &mut self.0 {
            registered.as_mut().reset(then);
        }
    }

    /// Ready once it has fired.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().map_or(Poll::Pending, |registered| registered.as_mut().poll(cx))
    }
}

/// The output of `future`, which is asked since `now`, or `None` if it has not come by then. It is [`attended`] until its
/// timer first fires.
#[cfg(feature = "redis")]
pub(crate) fn attended_before<F: Future + Unpin>(
    now: Instant,
    then: Instant,
    future: F,
) -> AttendedBefore<F> {
    AttendedBefore { look: look_at(now, then), then, future, timer: None, has_fired: false }
}

#[cfg(feature = "redis")]
fn look_at(now: Instant, then: Instant) -> Instant {
    then.min(now + ATTENDED_EVERY)
}

/// The future of [`attended_before`].
#[cfg(feature = "redis")]
pub(crate) struct AttendedBefore<F> {
    /// When the timer fires first.
    look: Instant,
    then: Instant,
    future: F,
    timer: Option<Timer>,
    has_fired: bool,
}

#[cfg(feature = "redis")]
impl<F: Future + Unpin> Future for AttendedBefore<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { look, then, future, timer, has_fired } = &mut *self;
        if let Poll::Ready(output) = Pin::new(future).poll(cx) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| Timer::at(*look, cx));
        while timer.poll(cx).is_ready() {
            let now = Instant::now();
            if now >= *then {
                return Poll::Ready(None);
            }
            timer.reset(look_at(now, *then));
            *has_fired = true;
        }
        // Later, what is around it gives signs of life: it would say that it is attended for ever.
        if !*has_fired {
            attended();
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some(registered) = self.0.take() else { return };
        // A group has the timers of known tasks only.
        let Some(woken) = registered.woken else { return };
        // As above.
        let _ = IDLE.try_with(|idle| {
            if let Ok(mut idle) = idle.try_borrow_mut()
                && idle.kept < MOST
            {
                idle.keep(woken, registered);
            }
        });
    }
}

#[cfg(test)]
mod tests {
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
        IDLE.with(|idle| idle.borrow().groups.iter().map(Vec::len).sum())
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

    #[test]
    fn a_timer_belongs_to_its_runtime() {
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let [soon, later] =
                    [1, 60_000].map(|ms| Instant::now() + Duration::from_millis(ms));
                // The one that the first runtime has left behind would panic.
                fired(&mut timer(soon).await).await;
                drop([polled(later).await, polled(later).await]);
                assert_eq!(kept(), 2);
            });
        }
    }
}
