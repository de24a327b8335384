//! Function bodies, in the forms in which expansions hand them over.

use std::sync::Arc;

use crate::guard::LockGuard;

/// What a body is started on.
#[derive(Debug)]
pub enum Ground {
    /// Its lock.
    Lock(LockGuard),
    /// Its lock, which it can look at.
    Shared(Arc<LockGuard>),
    /// Nothing: it needs no lock this time.
    Nothing,
    /// Nothing: somebody else has the lock.
    Busy,
}

impl Ground {
    /// The guard, for a body that looks at it.
    fn share(&mut self) -> Option<Arc<LockGuard>> {
        *self = match std::mem::replace(self, Self::Nothing) {
            Self::Lock(guard) => Self::Shared(Arc::new(guard)),
            ground => ground,
        };
        match self {
            Self::Shared(guard) => Some(Arc::clone(guard)),
            _ => None,
        }
    }

    /// The guard, for the run.
    pub(super) fn guard(&self) -> Option<&LockGuard> {
        match self {
            Self::Lock(guard) => Some(guard),
            Self::Shared(guard) => Some(guard),
            Self::Nothing | Self::Busy => None,
        }
    }

    /// The guard, for the release: the body, which may have shared it, is gone by then.
    pub(super) fn into_guard(self) -> Option<LockGuard> {
        match self {
            Self::Lock(guard) => Some(guard),
            Self::Shared(guard) => Arc::into_inner(guard),
            Self::Nothing | Self::Busy => None,
        }
    }
}

/// A function body that can be started.
pub trait Body: Sized {
    /// What the body returns.
    type Output;
    /// The body under way.
    type Future: Future<Output = Self::Output>;

    /// Whether it cannot be started on [`Ground::Nothing`].
    const NEEDS_GUARD: bool = false;

    /// Starts it, unless it has nothing to do there.
    fn start(self, ground: &mut Ground) -> Option<Self::Future>;
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

    fn start(self, ground: &mut Ground) -> Option<F> {
        if matches!(ground, Ground::Busy) { None } else { Some(self.0) }
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

    const NEEDS_GUARD: bool = true;

    fn start(self, ground: &mut Ground) -> Option<F> {
        ground.share().map(self.0)
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

    fn start(self, ground: &mut Ground) -> Option<F> {
        Some((self.0)(matches!(ground, Ground::Busy)))
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

    const NEEDS_GUARD: bool = true;

    fn start(self, ground: &mut Ground) -> Option<F> {
        Some((self.0)(ground.share()))
    }
}

/// Calls the body of a function that returns a future.
pub fn future<F: Future>(body: impl FnOnce() -> F) -> F {
    body()
}

/// Never called: it tells the compiler the type of a body.
pub fn never<T>() -> T {
    loop {
        std::thread::park();
    }
}
