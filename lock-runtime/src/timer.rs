//! Timers that are used again, and waits that need none.
//!
//! Tokio registers a timer under a lock, and removes one that is dropped early under the same lock: that takes longer
//! than all else that a request waits for. Moving a registered timer to a later time needs no lock. So a timer that is
//! not needed any more stays registered, and the next one that its thread needs is that one. It is moved once it fires, if
//! that is too early: most are not needed for so long.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep, sleep_until};

/// The most timers that a thread keeps.
const MOST: usize = 256;

thread_local! {
    static IDLE: RefCell<Idle> = const { RefCell::new(Idle { runtime: None, timers: Vec::new() }) };
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
    timers: Vec<Pin<Box<Sleep>>>,
}

impl Idle {
    fn timers_of(&mut self, runtime: Id) -> &mut Vec<Pin<Box<Sleep>>> {
        if self.runtime != Some(runtime) {
            self.timers.clear();
            self.runtime = Some(runtime);
        }
        &mut self.timers
    }
}

/// A timer for a wait that usually ends earlier.
pub(crate) struct Timer {
    /// Empty only while it is dropped. It may fire earlier.
    sleep: Option<Pin<Box<Sleep>>>,
    then: Instant,
    runtime: Id,
}

impl Timer {
    /// A timer that fires then. The caller is in a runtime.
    pub(crate) fn at(then: Instant) -> Self {
        Self::on(Handle::current().id(), then)
    }

    /// The same, for a caller that knows in which runtime it is.
    pub(crate) fn on(runtime: Id, then: Instant) -> Self {
        let idle = IDLE.try_with(|idle| idle.borrow_mut().timers_of(runtime).pop());
        let sleep = match idle.ok().flatten() {
            Some(mut sleep) => {
                if sleep.deadline() > then {
                    sleep.as_mut().reset(then);
                }
                sleep
            }
            None => Box::pin(sleep_until(then)),
        };
        Self { sleep: Some(sleep), then, runtime }
    }

    /// Moves it.
    pub(crate) fn reset(&mut self, then: Instant) {
        self.then = then;
        if let Some(sleep) = &mut self.sleep {
            sleep.as_mut().reset(then);
        }
    }

    /// Ready once it has fired.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sleep) = &mut self.sleep else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        if sleep.deadline() >= self.then {
            return Poll::Ready(());
        }
        sleep.as_mut().reset(self.then);
        sleep.as_mut().poll(cx)
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
        let timer = timer.get_or_insert_with(|| Timer::at(*look));
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
        let Some(sleep) = self.sleep.take() else { return };
        // The thread may be ending, or another timer of it may be dropped right now.
        let _ = IDLE.try_with(|idle| {
            if let Ok(mut idle) = idle.try_borrow_mut() {
                let timers = idle.timers_of(self.runtime);
                if timers.len() < MOST {
                    timers.push(sleep);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn fired(timer: &mut Timer) {
        poll_fn(|cx| timer.poll(cx)).await;
    }

    fn kept() -> usize {
        IDLE.with(|idle| idle.borrow().timers.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_timer_fires_at_its_new_time() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut first = Timer::at(start + second);
        assert!(tokio::time::timeout(second / 2, fired(&mut first)).await.is_err());
        drop(first);
        for (then, expected) in [(3, 3), (2, 3), (4, 4)] {
            let mut next = Timer::at(start + second * then);
            assert_eq!(kept(), 0, "not used again");
            fired(&mut next).await;
            assert_eq!(start.elapsed().as_secs(), expected);
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
                let soon = Instant::now() + Duration::from_millis(1);
                // The one that the first runtime has left behind would panic.
                fired(&mut Timer::at(soon)).await;
                drop([Timer::at(soon), Timer::at(soon)]);
                assert_eq!(kept(), 2);
            });
        }
    }
}
