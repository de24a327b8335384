//! Signs of life: what keeps a future that nobody polls from holding up the others.
//!
//! Whoever waits here or contends proves every [`SIGN_OF_LIFE`] that it is polled, by a timer of its
//! own. Who stands in line looks at the gate guard with the same timer: one whose turn has come, one that
//! contends and one that lets go, not polled for [`ASLEEP_AFTER`], are passed over. So those who are
//! held up measure by themselves, whatever becomes of the tasks and runtimes of the others.
//!
//! A turn that was not taken is taken back. A gate guard that is in use becomes void and the next gets a new
//! one: exclusion is the store's matter, so two contenders of one process cost a request and nothing else.
// S-34.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::waiter::TakenBack;
use super::{Gate, GateGuard, GateState, Gates, Given, Ticket, Turn};
use crate::store::{OwnerId, Target};

/// How often whoever waits or contends proves that it is polled.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// Not polled for so long, a future is passed over.
pub(crate) const ASLEEP_AFTER: Duration = Duration::from_secs(1);

pub(super) fn is_asleep(polled_at: Instant, now: Instant) -> bool {
    now >= polled_at + ASLEEP_AFTER
}

/// Proves that the contender with a certain gate guard is polled.
pub(crate) struct Life<'a, H> {
    /// Empty if nobody lines up behind it.
    inside: Option<(&'a Gates<H>, &'a Target)>,
    gate_guard: u64,
    is_unqueued: bool,
}

impl<'a, H> Life<'a, H> {
    pub(crate) fn of(gate_guard: &GateGuard<H>, gates: &'a Gates<H>, target: &'a Target) -> Self {
        let inside = gate_guard.inside.is_some().then_some((gates, target));
        Self { inside, gate_guard: gate_guard.number, is_unqueued: gate_guard.is_unqueued }
    }

    /// Drives `contending`, and calls `look` every so often, at least with each sign of life. None once its
    /// gate guard was given to another: it is to line up again.
    pub(crate) async fn drive<F: Future>(
        self,
        every: Duration,
        look: impl Fn(),
        contending: F,
    ) -> Option<F::Output> {
        let mut contending = pin!(contending);
        let mut timer = pin!(None::<Sleep>);
        poll_fn(|cx| {
            if let Poll::Ready(output) = contending.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            let Some((gates, target)) = self.inside else { return Poll::Pending };
            while timer.as_mut().as_pin_mut().is_none_or(|timer| timer.poll(cx).is_ready()) {
                let now = Instant::now();
                if timer.is_some() {
                    look();
                }
                let valid = match self.is_unqueued {
                    true => gates.lives_beside(target, self.gate_guard, now),
                    false => gates.contends(target, self.gate_guard, now),
                };
                if !valid {
                    return Poll::Ready(None);
                }
                timer.set(Some(sleep_until(now + every.min(SIGN_OF_LIFE))));
            }
            Poll::Pending
        })
        .await
    }
}

impl<H> Gates<H> {
    /// A contender's sign of life. False if its gate guard is not valid any more.
    fn contends(&self, target: &Target, gate_guard: u64, now: Instant) -> bool {
        let mut shard = self.shard(target);
        let gate = shard.gates.get_mut(target).filter(|gate| gate.seat_number == gate_guard);
        let Some(gate) = gate else { return false };
        if !matches!(gate.gate_guard, GateState::Leaving { .. }) {
            gate.gate_guard = GateState::Contending { polled_at: now };
        }
        true
    }
}

impl<H> Ticket<H> {
    /// A waiter's sign of life, and its look at who goes before. Returns as whom a contender that it
    /// passed over may have been granted the lock.
    #[must_use = "what it was granted is to be given back"]
    pub(crate) fn look(&self) -> Option<OwnerId> {
        let Self { gates, target, waiter } = self;
        let now = Instant::now();
        let passed_over = {
            let mut shard = gates.shard(target);
            let comes_back = waiter.comes_back();
            if comes_back && gates.closed.load(Ordering::SeqCst) {
                drop(shard);
                waiter.give(Turn::Closed);
                return None;
            }
            let number = shard.next_number();
            if comes_back && shard.gates.get(&**target).is_none_or(Gate::is_free) {
                shard.take_seat(target, number);
                drop(shard);
                waiter.give(Turn::Contend(gates.gate_guard(target, number, waiter.number)));
                return None;
            }
            let gate = shard.gates.get_mut(&**target)?;
            if comes_back {
                gates.line_up(gate, waiter, now);
            } else if let Some(in_line) = gate.line.get_mut(&waiter.number) {
                in_line.polled_at = now;
            } else {
                // Its turn is on the way.
                return None;
            }
            let passed_over = match gate.pass_over(now)? {
                PassedOver::Waiter(turn) => (turn, None),
                PassedOver::GateGuard => {
                    let asked = gate.asking.take();
                    gate.take(number);
                    (Turn::Contend(gates.gate_guard(target, number, number)), asked)
                }
            };
            let asleep = gate.pass_over_line(now);
            gates.waiting.fetch_sub(asleep, Ordering::Relaxed);
            passed_over
        };
        let (turn, asked) = passed_over;
        // Lets the next in line in, or first gives back the hold that comes with it (invariant 2).
        drop(turn);
        asked
    }
}

/// Who was passed over.
enum PassedOver<H> {
    Waiter(Turn<H>),
    GateGuard,
}

impl<H> Gate<H> {
    /// Takes the turn or the gate guard from a task that is not polled.
    fn pass_over(&mut self, now: Instant) -> Option<PassedOver<H>> {
        match &mut self.gate_guard {
            GateState::Given(Given { to, held, polled_at }) if is_asleep(*polled_at, now) => {
                let taken = if *held { GateState::Holding } else { GateState::Taken };
                match to.take_back() {
                    TakenBack::Turn(turn) => return Some(PassedOver::Waiter(turn)),
                    TakenBack::NotYet => {}
                    TakenBack::Over => self.gate_guard = taken,
                }
                None
            }
            GateState::Contending { polled_at } if is_asleep(*polled_at, now) => {
                Some(PassedOver::GateGuard)
            }
            GateState::Leaving { since, .. } => {
                is_asleep(*since.get_or_insert(now), now).then_some(PassedOver::GateGuard)
            }
            _ => None,
        }
    }

    /// Takes those out of the line that are asleep and whose turn would come next, and says how many.
    /// Whoever looks is not.
    fn pass_over_line(&mut self, now: Instant) -> usize {
        let mut count = 0;
        while let Some(first) = self.line.first_entry()
            && is_asleep(first.get().polled_at, now)
        {
            first.remove().waiter.pass_over();
            count += 1;
        }
        count
    }
}
