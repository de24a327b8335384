//! Function bodies, in the forms in which expansions hand them over.

use std::sync::Arc;

use crate::guard::LockGuard;
use crate::options::Wait;

/// A function body that can be started.
pub trait Body: Sized {
    /// What the body returns.
    type Output;
    /// The body under way.
    type Future: Future<Output = Self::Output>;
    /// How the guard is kept while it runs.
    type Guard: AsRef<LockGuard>;
    /// How long to wait if nobody says so: who has something else to do does not.
    const WAIT: Option<Wait> = None;

    /// Starts it under the lock.
    fn start(self, guard: LockGuard) -> (Self::Guard, Self::Future);
    /// The guard, for its release.
    fn guard_back(guard: Self::Guard) -> Option<LockGuard>;
    /// Starts it without the lock, if it can do without a guard.
    fn start_without(self) -> Result<Self::Future, Self> {
        Err(self)
    }
    /// Starts what there is to do while somebody else has the lock, if there is such a thing.
    fn start_busy(self) -> Result<Self::Future, Self> {
        Err(self)
    }
}

/// A body that does not look at its guard.
#[derive(Debug)]
pub struct Plain<F>(F);

/// Wraps a body that does not look at its guard.
pub fn plain<F: Future>(body: F) -> Plain<F> {
    Plain(body)
}

impl<F: Future> Body for Plain<F> {
    type Output = F::Output;
    type Future = F;
    type Guard = LockGuard;

    fn start(self, guard: LockGuard) -> (LockGuard, F) {
        (guard, self.0)
    }

    fn guard_back(guard: LockGuard) -> Option<LockGuard> {
        Some(guard)
    }

    fn start_without(self) -> Result<F, Self> {
        Ok(self.0)
    }
}

/// A body with `guard = name`.
#[derive(Debug)]
pub struct WithGuard<C>(C);

/// Wraps a body that gets its guard.
pub fn with_guard<C, F>(body: C) -> WithGuard<C>
where
    C: FnOnce(Arc<LockGuard>) -> F,
    F: Future,
{
    WithGuard(body)
}

impl<C, F> Body for WithGuard<C>
where
    C: FnOnce(Arc<LockGuard>) -> F,
    F: Future,
{
    type Output = F::Output;
    type Future = F;
    type Guard = Arc<LockGuard>;

    fn start(self, guard: LockGuard) -> (Arc<LockGuard>, F) {
        let guard = Arc::new(guard);
        let body = (self.0)(Arc::clone(&guard));
        (guard, body)
    }

    fn guard_back(guard: Arc<LockGuard>) -> Option<LockGuard> {
        // The body, which had the other reference, is gone by now.
        Arc::into_inner(guard)
    }
}

/// A body with `on_busy = fallback(path)`.
#[derive(Debug)]
pub struct PlainOr<C>(C);

/// Wraps a body that is told whether to do what there is to do while somebody else has the lock.
pub fn plain_or<C, F>(body: C) -> PlainOr<C>
where
    C: FnOnce(bool) -> F,
    F: Future,
{
    PlainOr(body)
}

impl<C, F> Body for PlainOr<C>
where
    C: FnOnce(bool) -> F,
    F: Future,
{
    type Output = F::Output;
    type Future = F;
    type Guard = LockGuard;
    const WAIT: Option<Wait> = Some(Wait::Never);

    fn start(self, guard: LockGuard) -> (LockGuard, F) {
        (guard, (self.0)(false))
    }

    fn guard_back(guard: LockGuard) -> Option<LockGuard> {
        Some(guard)
    }

    fn start_without(self) -> Result<F, Self> {
        Ok((self.0)(false))
    }

    fn start_busy(self) -> Result<F, Self> {
        Ok((self.0)(true))
    }
}

/// A body with `guard = name` and `on_busy = fallback(path)`.
#[derive(Debug)]
pub struct WithGuardOr<C>(C);

/// Wraps a body that gets its guard, or none while somebody else has the lock.
pub fn with_guard_or<C, F>(body: C) -> WithGuardOr<C>
where
    C: FnOnce(Option<Arc<LockGuard>>) -> F,
    F: Future,
{
    WithGuardOr(body)
}

impl<C, F> Body for WithGuardOr<C>
where
    C: FnOnce(Option<Arc<LockGuard>>) -> F,
    F: Future,
{
    type Output = F::Output;
    type Future = F;
    type Guard = Arc<LockGuard>;
    const WAIT: Option<Wait> = Some(Wait::Never);

    fn start(self, guard: LockGuard) -> (Arc<LockGuard>, F) {
        let guard = Arc::new(guard);
        let body = (self.0)(Some(Arc::clone(&guard)));
        (guard, body)
    }

    fn guard_back(guard: Arc<LockGuard>) -> Option<LockGuard> {
        Arc::into_inner(guard)
    }

    fn start_busy(self) -> Result<F, Self> {
        Ok((self.0)(None))
    }
}

/// Calls the body of a function that returns a future.
pub fn future<F: Future>(body: impl FnOnce() -> F) -> F {
    body()
}

/// What a fallback is to return.
pub fn instead<F: IntoFuture>(fallback: F) -> F::IntoFuture {
    fallback.into_future()
}

/// Never called: it tells the compiler what a body takes with it.
pub fn whole<T>(_: T) {}

/// Never called: it tells the compiler the type of a body.
pub fn never<T>() -> T {
    loop {
        std::thread::park();
    }
}
