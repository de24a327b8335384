//! Timers that are used again, and waits that need none.
//!
//! Tokio registers a timer under a lock, and removes one that is dropped early under the same lock: that takes longer
//! than all else that a request waits for. So a timer that is not needed any more stays registered, and serves the next
//! wait of its task on this thread, or of another task. If it fires too early for that, it is moved then: most waits end
//! before. While it is registered for the same task, that needs no poll.
//!
//! A timer refers to its runtime, and a thread may outlive that. So the timers that a thread keeps have a [sentinel](Kept)
//! among them, which fires when the runtime ends, at the latest, and has all of them dropped.

use std::cell::{Cell, RefCell};
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// A thread keeps its timers in so many groups, by their tasks.
const GROUPS: usize = 64;

/// The most timers that a thread keeps.
const MOST: usize = 256;

/// How long a thread keeps timers, if their runtime lives as long.
const KEPT_FOR: Duration = Duration::from_secs(10);

thread_local! {
    /// Those of the runtime that this thread runs now.
    static IDLE: RefCell<Option<(Id, Arc<Kept>)>> = const { RefCell::new(None) };
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

/// Timers of one runtime that a thread keeps. They are behind a mutex because the thread that ends the runtime drops them.
#[derive(Default)]
struct Kept(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    /// Fires when its runtime ends, as every timer does then, or earlier, and wakes [`Kept`]. None is kept without it.
    sentinel: Option<Pin<Box<Sleep>>>,
    /// How many all groups have.
    len: usize,
    /// Empty, or [`GROUPS`].
    groups: Vec<Vec<Pin<Box<Registered>>>>,
}

impl Kept {
    /// Those of `runtime`, in which the caller is. A thread that has run another one meanwhile starts anew.
    fn of(runtime: Id) -> Option<Arc<Self>> {
        let (kept, _other) = IDLE
            .try_with(|idle| {
                let mut idle = idle.try_borrow_mut().ok()?;
                match &*idle {
                    Some((id, kept)) if *id == runtime => Some((Arc::clone(kept), None)),
                    _ => {
                        let kept = Arc::<Self>::default();
                        let other = idle.replace((runtime, Arc::clone(&kept)));
                        Some((kept, other.map(|(_, other)| Dropped(other))))
                    }
                }
            })
            .ok()
            .flatten()?;
        Some(kept)
    }

    /// A timer of that task, or another one.
    fn take(self: &Arc<Self>, woken: Woken) -> Option<Pin<Box<Registered>>> {
        let mut idle = self.0.lock();
        if idle.sentinel.is_none() {
            let mut sentinel = Box::pin(sleep_until(Instant::now() + KEPT_FOR));
            let waker = Waker::from(Arc::clone(self));
            // Not with the task's budget, as below.
            let polled = Pin::new(&mut unconstrained(sentinel.as_mut()))
                .poll(&mut Context::from_waker(&waker));
            idle.sentinel = polled.is_pending().then_some(sentinel);
            return None;
        }
        let group = idle.groups.get_mut(group_of(woken))?;
        let own = group.iter().rposition(|timer| timer.woken == Some(woken));
        let at = own.or_else(|| group.len().checked_sub(1))?;
        let taken = group.swap_remove(at);
        idle.len -= 1;
        Some(taken)
    }

    /// Keeps a timer, if there is room; otherwise returns it.
    fn keep(&self, woken: Woken, registered: Pin<Box<Registered>>) -> Option<Pin<Box<Registered>>> {
        let mut idle = self.0.lock();
        if idle.sentinel.is_none() || idle.len >= MOST {
            return Some(registered);
        }
        idle.groups.resize_with(GROUPS, Vec::new);
        let Some(group) = idle.groups.get_mut(group_of(woken)) else { return Some(registered) };
        group.push(registered);
        idle.len += 1;
        None
    }
}

impl Wake for Kept {
    fn wake(self: Arc<Self>) {
        // Dropped after the unlock: a timer may be the last that knows of a task.
        let dropped = mem::take(&mut *self.0.lock());
        drop(dropped);
    }
}

/// Drops the timers of a runtime that the thread runs no more.
struct Dropped(Arc<Kept>);

impl Drop for Dropped {
    fn drop(&mut self) {
        Arc::clone(&self.0).wake();
    }
}

/// The group of a task's timers.
fn group_of(woken: Woken) -> usize {
    // Addresses of tasks differ in some bits only. Multiplied by 2^64 divided by the golden ratio, they differ in the
    // upper ones, which choose the group (Knuth, The Art of Computer Programming, volume 3, section 6.4).
    let spread = (woken.data as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (spread >> 32) as usize % GROUPS
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
        // None if the thread is ending.
        let kept = Kept::of(runtime).and_then(|kept| kept.take(Woken::by(cx.waker())));
        let Some(mut registered) = kept else {
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
        // Also dropped outside of its runtime, and after that has ended: then its sentinel has fired.
        let kept = IDLE.try_with(|idle| {
            let idle = idle.try_borrow().ok()?;
            let (_, kept) = idle.as_ref().filter(|(runtime, _)| *runtime == registered.runtime)?;
            Some(Arc::clone(kept))
        });
        if let Some(kept) = kept.ok().flatten() {
            let _too_many = kept.keep(woken, registered);
        }
    }
}

#[cfg(test)]
#[path = "timer/tests.rs"]
mod tests;
