//! Re-entries: which guards may be inside one hold at the same time.
//!
//! The guards of a hold form a tree. Its root is the hold, and a guard that re-enters is a [`Level`] below the
//! deepest level around its caller. For each of its locks a level has a [`Turnstile`], a small read/write lock that
//! the code inside passes in order to re-enter. So concurrent re-entries inside one guard take turns in the order
//! in which they came, reads share, and a re-entry never waits for one that is around it:
//!
//! ```text
//! hold of m      its turnstile: `one` is inside, `two` is in the queue
//! └─ one         its turnstile: `nested` is inside, without having waited
//!    └─ nested
//! ```
//!
//! The code inside of a read uses the turnstile that the read has passed, not one of the read's own. A write inside
//! of a read enters there once no reads but those around it are inside, and then excludes the reads that come.
//!
//! A level keeps the one around it, by reference counting: a guard that is dropped keeps its place until the code
//! inside of it has no guard left and waits for none. Scopes refer to levels weakly. So the reference counts are the
//! one record of what is inside: that of the root, for the whole hold ([`Level::is_in_use`]).
//!
//! A waiter whose turn has come has the turn, polled or not, as with tokio's locks; those behind it wait for no
//! longer than their own `wait`. A waiter keeps the place of the levels around it, too.
//!
//! # Invariants
//!
//! 1. Inside of a turnstile are readers, or one writer and the reads around it.
//! 2. A [`Permit`] is in the queue or is counted as inside, never both, and the mutex of the turnstile is what
//!    separates the two. So a permit may be dropped at any time: it leaves where it is found.
//! 3. After each change nothing in the queue could be inside: a change lets in all whose turn has come.
//! 4. The queue is first come, first served, with one exception: a waiter inside of a read goes before the others,
//!    since a writer among those waits for that read to end.
//! 5. A turnstile's mutex is the last lock that a thread takes: no other is taken under it, no second turnstile
//!    either. Wakers are called and dropped after the unlock, because they may run code that comes here.
//!
//! Waiters make no circle here. Several locks are passed in the order of the hold's members, so a waiter has passed
//! only locks before the one that it waits for. It never waits for a guard around it, and a write inside of a read
//! that would wait for another read, whose code may do the same, is [refused](Obstacle::Reads). Circles through guards
//! that the code keeps are the caller's, as without a hold around them, and end with its `wait`.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::iter;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::Hold;

/// One level of the tree: the hold, or a guard that has re-entered it.
pub(crate) struct Level {
    /// At least one more than that of the levels around it: of two levels around a caller, of which one is inside of
    /// the other, the inner one is deeper.
    depth: u32,
    first: HeldLock,
    /// The other locks of a multi lock. Apart, so that a re-entry of one lock makes one allocation.
    more: Box<[HeldLock]>,
}

/// One lock of the hold, as a level has it.
struct HeldLock {
    /// Its place among the hold's locks.
    number: usize,
    /// `None` for the hold.
    permit: Option<Permit>,
    /// For the code inside.
    inside: Mutex<Turnstile>,
}

const HAS_IT: &str = "a level is asked only for locks that it has";

impl Level {
    /// The level of a hold of so many locks.
    pub(super) fn outermost(locks: usize) -> Arc<Self> {
        let lock = |number| HeldLock { number, permit: None, inside: Mutex::default() };
        Arc::new(Self { depth: 0, first: lock(0), more: (1..locks).map(lock).collect() })
    }

    /// The level of a guard with these permits. `None` for one without any, which excludes no other guard.
    #[inline]
    pub(crate) fn of<E>(
        permits: impl IntoIterator<Item = Result<Permit, E>>,
    ) -> Result<Option<Arc<Self>>, E> {
        let mut depth = 0;
        let mut locks = permits.into_iter().map(|permit| {
            let permit = permit?;
            depth = depth.max(permit.around.depth + 1);
            let number = permit.number;
            Ok::<_, E>(HeldLock { number, permit: Some(permit), inside: Mutex::default() })
        });
        let Some(first) = locks.next().transpose()? else { return Ok(None) };
        let more = locks.collect::<Result<_, _>>()?;
        Ok(Some(Arc::new(Self { depth, first, more })))
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.lock(number).is_some()
    }

    fn lock(&self, number: usize) -> Option<&HeldLock> {
        iter::once(&self.first).chain(&self.more).find(|lock| lock.number == number)
    }

    /// True if a guard is inside of this level of a hold, or waits to be, for a caller that has the hold alone.
    ///
    /// The count is read without an order of its own. A caller goes inside, or queues, while it has a reference to the
    /// owned hold, and drops the level of a guard before the guard's reference. A caller that has the hold alone has seen the last
    /// of those references dropped (the acquire in `Arc::get_mut`, `Arc::into_inner` and the drop of an `Arc` pairs with
    /// the release of each other drop), and so the counts before. A read inside of a write keeps its level without such a
    /// reference, so the end of that level may be seen late: then the hold goes to the store and not to the next waiter.
    pub(super) fn is_in_use(this: &Arc<Self>) -> bool {
        Arc::strong_count(this) > 1
    }
}

impl HeldLock {
    /// The turnstile that the code inside passes. Ends at the innermost write, or at the hold.
    fn turnstile(&self) -> &Mutex<Turnstile> {
        match &self.permit {
            Some(permit) if permit.reads => permit.turnstile(),
            _ => &self.inside,
        }
    }

    /// How many reads around the code inside have passed that turnstile. They stay there for as long as this level does.
    fn reads_around(&self) -> u32 {
        match &self.permit {
            Some(permit) if permit.reads => permit.reads_around + 1,
            _ => 0,
        }
    }
}

/// Why a re-entry may not go inside, nor wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Others are inside, and as many wait as may.
    Full,
    /// It is inside a read and wants to write, and so may a concurrent read: they would wait for each other.
    Reads,
}

/// A place inside of a turnstile, or in its queue. Dropping it leaves either, and lets in those whose turn has come.
pub(crate) struct Permit {
    /// The level whose code asks. Kept until this is dropped, so that the reads around it stay counted.
    around: Arc<Level>,
    number: usize,
    reads: bool,
    reads_around: u32,
    /// Its number in the queue; zero if it never queued.
    ticket: u64,
}

impl Permit {
    /// Passes the turnstile of that lock for the code inside of `around`, or queues there, behind fewer than
    /// `max_waiters`.
    #[inline]
    pub(crate) fn ask(
        around: Arc<Level>,
        number: usize,
        reads: bool,
        max_waiters: usize,
    ) -> Result<Self, Obstacle> {
        let lock = around.lock(number).expect(HAS_IT);
        let reads_around = lock.reads_around();
        // Made after the turnstile counts it: dropping a permit would uncount it.
        let ticket = lock.turnstile().lock().ask(reads, reads_around, max_waiters)?;
        Ok(Self { around, number, reads, reads_around, ticket })
    }

    /// True if it had to queue, and so may have to wait.
    pub(crate) fn has_queued(&self) -> bool {
        self.ticket != 0
    }

    /// Waits until it is inside. False once it `is_over`, which is checked at each poll.
    pub(crate) async fn turn(&self, is_over: impl Fn() -> bool) -> bool {
        poll_fn(|cx| match is_over() {
            true => Poll::Ready(false),
            false => self.poll_turn(cx.waker()).map(|()| true),
        })
        .await
    }

    fn poll_turn(&self, waker: &Waker) -> Poll<()> {
        let _old_waker;
        let mut turnstile = self.turnstile().lock();
        // Not in the queue: another thread has let it in, and has called the waker of the last poll or will do so.
        let Some(place) = turnstile.place_of(self.ticket) else { return Poll::Ready(()) };
        let its = &mut turnstile.queue[place].waker;
        if !its.will_wake(waker) {
            _old_waker = std::mem::replace(its, waker.clone());
        }
        drop(turnstile);
        Poll::Pending
    }

    fn turnstile(&self) -> &Mutex<Turnstile> {
        self.around.lock(self.number).expect(HAS_IT).turnstile()
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        let mut turnstile = self.turnstile().lock();
        let _waiter = turnstile.leave(self);
        let admitted = turnstile.admit();
        drop(turnstile);
        admitted.into_iter().for_each(Waker::wake);
        // `around` is dropped now, and with it perhaps a level whose guard has gone before: its permits do the same.
    }
}

/// A read/write lock whose writer may have reads around it.
#[derive(Default)]
struct Turnstile {
    readers: u32,
    has_writer: bool,
    /// Grows only: a permit that was let in finds no other one under its number.
    last_ticket: u64,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    ticket: u64,
    reads: bool,
    reads_around: u32,
    waker: Waker,
}

impl Turnstile {
    /// Returns zero if the caller is inside, or else its ticket.
    fn ask(&mut self, reads: bool, reads_around: u32, max_waiters: usize) -> Result<u64, Obstacle> {
        if (self.queue.is_empty() || reads_around > 0) && self.has_room(reads, reads_around) {
            self.let_in(reads);
            return Ok(0);
        }
        if !reads && reads_around > 0 && self.readers > reads_around {
            return Err(Obstacle::Reads);
        }
        if self.queue.len() >= max_waiters {
            return Err(Obstacle::Full);
        }
        self.last_ticket += 1;
        let (ticket, waker) = (self.last_ticket, Waker::noop().clone());
        self.queue.push_back(Waiter { ticket, reads, reads_around, waker });
        Ok(ticket)
    }

    /// Invariant 1. The reads around a caller are among the readers, so their number tells whether there are others.
    fn has_room(&self, reads: bool, reads_around: u32) -> bool {
        !self.has_writer && (reads || self.readers == reads_around)
    }

    fn let_in(&mut self, reads: bool) {
        match reads {
            true => self.readers += 1,
            false => self.has_writer = true,
        }
    }

    fn place_of(&self, ticket: u64) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.ticket == ticket)
    }

    /// Returns what to drop after the unlock (invariant 5).
    fn leave(&mut self, permit: &Permit) -> Option<Waiter> {
        if let Some(place) = self.place_of(permit.ticket) {
            return self.queue.remove(place);
        }
        match permit.reads {
            true => self.readers -= 1,
            false => self.has_writer = false,
        }
        None
    }

    /// Lets in all whose turn has come, and returns their wakers (invariants 3 and 4).
    fn admit(&mut self) -> Vec<Waker> {
        let mut admitted = Vec::new();
        loop {
            let inside_a_read = |waiter: &Waiter| waiter.reads_around > 0;
            let place = self.queue.iter().position(inside_a_read).unwrap_or(0);
            let Some(next) = self.queue.get(place) else { return admitted };
            if !self.has_room(next.reads, next.reads_around) {
                return admitted;
            }
            if let Some(next) = self.queue.remove(place) {
                self.let_in(next.reads);
                admitted.push(next.waker);
            }
        }
    }
}

/// A read's place inside of the write hold around it. It excludes the writes beside it there, and keeps no hold alive.
pub(crate) struct ReentryGuard {
    pub(crate) hold: Arc<Hold>,
    pub(crate) level: Option<Arc<Level>>,
}
