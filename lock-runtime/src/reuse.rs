//! Boxes for futures that are used again.
//!
//! Each acquire and each release has a box of some hundred bytes. When the answers to many of them come at once, a
//! thread frees and allocates more boxes of one size than an allocator keeps at hand, and each takes as long as the
//! writing of a command. So a thread keeps some for its next futures of the same type.

use std::cell::RefCell;
use std::thread::LocalKey;

use tokio_util::sync::ReusableBoxFuture;

/// The most boxes that a thread keeps of each type.
const MOST: usize = 64;

/// A boxed future.
pub(crate) type Boxed<T> = ReusableBoxFuture<'static, T>;

/// The boxes that a thread keeps for futures of one type. What is in them has completed, and owns nothing.
pub(crate) type Idle<T> = LocalKey<RefCell<Vec<Boxed<T>>>>;

/// Puts a future into a box that was used before, if there is one.
#[inline]
pub(crate) fn boxed<T>(
    idle: &'static Idle<T>,
    future: impl Future<Output = T> + Send + 'static,
) -> Boxed<T> {
    match idle.try_with(|idle| idle.borrow_mut().pop()).ok().flatten() {
        Some(mut boxed) => {
            boxed.set(future);
            boxed
        }
        None => Boxed::new(future),
    }
}

/// Keeps the box of a future that has completed.
pub(crate) fn keep<T>(idle: &'static Idle<T>, boxed: Boxed<T>) {
    // The thread may be ending.
    let _ = idle.try_with(|idle| {
        let mut idle = idle.borrow_mut();
        if idle.len() < MOST {
            idle.push(boxed);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    thread_local! {
        static IDLE: RefCell<Vec<Boxed<u32>>> = const { RefCell::new(Vec::new()) };
    }

    fn completed(number: u32) -> Boxed<u32> {
        let mut boxed = boxed(&IDLE, async move { number });
        assert_eq!(boxed.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(number));
        boxed
    }

    /// Where the future is.
    fn place(boxed: &mut Boxed<u32>) -> *const () {
        std::ptr::from_ref(&*boxed.get_pin()).cast()
    }

    fn kept() -> usize {
        IDLE.with_borrow(Vec::len)
    }

    #[test]
    fn a_box_is_used_again() {
        let mut first = completed(1);
        let used = place(&mut first);
        keep(&IDLE, first);
        assert_eq!(kept(), 1);
        let mut again = completed(2);
        assert_eq!((kept(), place(&mut again)), (0, used), "another box");
        keep(&IDLE, again);
        assert_eq!(kept(), 1);
    }

    #[test]
    fn a_thread_keeps_only_some() {
        let many: Vec<_> = (0..2 * MOST as u32).map(completed).collect();
        many.into_iter().for_each(|boxed| keep(&IDLE, boxed));
        assert_eq!(kept(), MOST);
    }
}
