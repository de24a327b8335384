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
        match self.first.number == number {
            true => Some(&self.first),
            false => self.more.iter().find(|lock| lock.number == number),
        }
    }

    /// True if a guard is inside of this level of a hold, or waits to be, for a caller that has the hold alone.
    pub(super) fn is_in_use(this: &Arc<Self>) -> bool {
        // A relaxed read, which is enough. A caller takes its reference to a level while it has one to the owned hold, and a
        // guard drops its level before its reference to the owned hold. A caller that has the hold alone has seen all of those
        // references dropped: the acquire in `Arc::get_mut`, in `Arc::into_inner` or in the last drop pairs with the release in
        // each other drop. So it sees what came before those, and no other thread can come inside any more: that takes a
        // reference to the owned hold.
        // The one that needs none is a read inside of a write, which keeps its level by itself and may end at the same time.
        // If its level is still counted here, the hold goes to the store and not to the next waiter of this process.
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
        // Made after the turnstile counts it: dropping a permit would uncount it. Nothing can fail in between, and no other
        // thread misses the permit: all that they see of it is the count.
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
        // Not in the queue: another thread has let it in. It may not have called the waker of the last poll yet, which then
        // wakes this task once more, for nothing. Before that the waker of the last poll is in the queue under this mutex, so
        // a thread that lets it in after this poll calls the new one.
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
        // Those let in are counted already: a caller that comes between the unlock and a wake finds them inside. One that is
        // dropped before it is woken, or by its waker, finds itself inside and leaves as any other.
        admitted.into_iter().for_each(Waker::wake);
        // `around` is dropped now, and with it perhaps a level whose guard has gone before: its permits do the same.
        // From the inside out, so that a turnstile never has fewer readers than are around a permit there.
    }
}

/// A read/write lock whose writer may have reads around it.
// | a permit is | found by | next |
// |---|---|---|
// | queued | its ticket, which is in the queue | inside, when `admit` lets it in; gone, when it is dropped |
// | inside | its ticket, which is not (zero if it never was) | gone, when it is dropped |
//
// Not tokio's `RwLock`: that has no writer beside its own reader, as a write inside of a read is, and a waiting writer keeps
// the permits that such a writer would need.
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
        // A caller inside of a read overtakes: in the queue may be a writer that waits for that read (invariant 4).
        if (self.queue.is_empty() || reads_around > 0) && self.has_room(reads, reads_around) {
            self.let_in(reads);
            return Ok(0);
        }
        // Only a newcomer is refused for the readers beside its read. One that has queued here waits for a writer inside, or for
        // reads inside of its own read: readers from outside of that are behind it, so it never comes to wait for one.
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
            // The first of those inside of a read, or else the first of all. If it has no room, those behind it do not overtake:
            // a writer would wait for as long as readers come.
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::yield_now;

    use super::*;

    /// One writer, among the readers that are counted below it.
    const WRITER: u32 = 1 << 16;

    /// Many threads: readers share, a writer is alone, what is nested does not wait, and who gives up leaves nothing, whether
    /// or not its turn had come.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn threads_take_turns() {
        let (root, inside) = (Level::outermost(1), Arc::new(AtomicU32::new(0)));
        let tasks = (0..8).map(|seed| {
            let (root, inside) = (Arc::clone(&root), Arc::clone(&inside));
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..3_000 {
                    let reads = random.bool();
                    let permit = Permit::ask(Arc::clone(&root), 0, reads, usize::MAX).unwrap();
                    if random.u8(..8) == 0 {
                        let _ = futures_util::poll!(pin!(permit.turn(|| false)));
                        yield_now().await;
                        continue;
                    }
                    assert!(permit.turn(|| false).await);
                    let this = if reads { 1 } else { WRITER };
                    let others = inside.fetch_add(this, Ordering::SeqCst);
                    assert!(
                        if reads { others < WRITER } else { others == 0 },
                        "beside {others:#x}"
                    );
                    if random.bool() {
                        yield_now().await;
                    }
                    let level = Level::of([Ok::<_, Obstacle>(permit)]).unwrap().unwrap();
                    let nested = Permit::ask(Arc::clone(&level), 0, reads, 0);
                    assert!(nested.is_ok(), "it waits for what is around it");
                    drop(level);
                    inside.fetch_sub(this, Ordering::SeqCst);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert!(!Level::is_in_use(&root), "a level is left");
        let turnstile = root.first.inside.lock();
        assert!(turnstile.readers == 0 && !turnstile.has_writer && turnstile.queue.is_empty());
    }

    /// A write inside of one read goes before those that wait for that read, and not beside another read.
    #[test]
    fn a_write_inside_of_a_read_waits_for_no_other() {
        let root = Level::outermost(1);
        let ask = |around: &Arc<Level>, reads| Permit::ask(Arc::clone(around), 0, reads, 9);
        let read = || Level::of([ask(&root, true)]).unwrap().unwrap();
        let one = read();
        let waits = ask(&root, false).unwrap();
        assert!(waits.has_queued(), "a write beside a read");
        let write = ask(&one, false).unwrap();
        assert!(!write.has_queued(), "it waits for one that waits for the read around it");
        let (next, beside) = (ask(&one, false).unwrap(), ask(&root, true).unwrap());
        assert!(next.has_queued() && beside.has_queued(), "two write, or a read beside a write");
        drop((waits, write));
        assert!(next.poll_turn(Waker::noop()).is_ready(), "it is behind those outside of its read");
        assert!(beside.poll_turn(Waker::noop()).is_pending(), "a read beside a write");
        drop(next);
        assert!(beside.poll_turn(Waker::noop()).is_ready(), "no write is inside");
        assert!(
            matches!(ask(&one, false), Err(Obstacle::Reads)),
            "the other may want to write, too"
        );
        drop(beside);
        // The place of a read that has ended is kept by what is inside of it.
        let write = ask(&one, false).unwrap();
        drop(one);
        assert!(!write.has_queued() && ask(&root, true).unwrap().has_queued());
        drop(write);
        assert!(!ask(&root, false).unwrap().has_queued(), "a place is left");
    }
}
