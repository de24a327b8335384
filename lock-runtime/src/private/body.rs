//! Function bodies, in the forms that expansions pass.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::guard::LockGuard;
use crate::opaque::opaque_debug;
use crate::options::Wait;

/// The result of the acquire with which a body is started.
#[derive(Debug)]
pub enum StartContext {
    /// Its lock.
    Lock(LockGuard),
    /// Its lock, which the body can access.
    Shared(Arc<LockGuard>),
    /// Nothing: it needs no lock this time.
    Nothing,
    /// Nothing: another holder has the lock.
    Busy,
}

impl StartContext {
    /// Returns the guard, for a body that accesses it.
    fn share(&mut self) -> Option<Arc<LockGuard>> {
        *self = match std::mem::replace(self, Self::Nothing) {
            Self::Lock(guard) => Self::Shared(Arc::new(guard)),
            context => context,
        };
        match self {
            Self::Shared(guard) => Some(Arc::clone(guard)),
            _ => None,
        }
    }

    /// Returns the guard, for the run.
    pub(super) fn guard(&self) -> Option<&LockGuard> {
        match self {
            Self::Lock(guard) => Some(guard),
            Self::Shared(guard) => Some(guard),
            Self::Nothing | Self::Busy => None,
        }
    }

    /// Returns the guard, for the release: the body, which may have shared it, was dropped before.
    pub(super) fn into_guard(self) -> Option<LockGuard> {
        match self {
            Self::Lock(guard) => Some(guard),
            Self::Shared(guard) => Arc::into_inner(guard),
            Self::Nothing | Self::Busy => None,
        }
    }
}

/// A function body: not started, running, or over.
pub trait Body {
    /// What the body returns.
    type Output;
    /// How long to wait if neither the call nor its policy sets it. A body with a fallback does not wait.
    const WAIT: Option<Wait> = None;
    /// True if it cannot be started on [`StartContext::Nothing`].
    const NEEDS_GUARD: bool = false;

    /// Starts it. Returns false if it does nothing in this context. Called once.
    fn start(self: Pin<&mut Self>, context: &mut StartContext) -> bool;
    /// Runs it, and drops it when it ends. Pending forever if it was not started or is over.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output>;
    /// Drops it.
    fn end(self: Pin<&mut Self>);
}

pin_project! {
    /// A body that does not access its guard: see [`body`].
    #[derive(Debug)]
    pub struct Plain<F> {
        #[pin]
        body: Option<F>,
    }
}

/// Wraps a body that does not access its guard.
pub fn body<F: Future>(body: F) -> Plain<F> {
    Plain { body: Some(body) }
}

impl<F: Future> Body for Plain<F> {
    type Output = F::Output;

    fn start(self: Pin<&mut Self>, context: &mut StartContext) -> bool {
        !matches!(context, StartContext::Busy)
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut body = self.project().body;
        let Some(running) = body.as_mut().as_pin_mut() else { return Poll::Pending };
        let value = ready!(running.poll(cx));
        body.set(None);
        Poll::Ready(value)
    }

    fn end(self: Pin<&mut Self>) {
        self.project().body.set(None);
    }
}

/// The part of the start context that a body sees.
pub trait View: Sized {
    /// As [`Body::WAIT`].
    const WAIT: Option<Wait>;
    /// As [`Body::NEEDS_GUARD`].
    const NEEDS_GUARD: bool;

    /// Returns the view, if the body does anything in this context.
    fn of(context: &mut StartContext) -> Option<Self>;
}

/// Its guard.
impl View for Arc<LockGuard> {
    const WAIT: Option<Wait> = None;
    const NEEDS_GUARD: bool = true;

    fn of(context: &mut StartContext) -> Option<Self> {
        context.share()
    }
}

/// True if another holder has the lock.
impl View for bool {
    const WAIT: Option<Wait> = Some(Wait::None);
    const NEEDS_GUARD: bool = false;

    fn of(context: &mut StartContext) -> Option<Self> {
        Some(matches!(context, StartContext::Busy))
    }
}

/// Its guard, or none while another holder has the lock.
impl View for Option<Arc<LockGuard>> {
    const WAIT: Option<Wait> = Some(Wait::None);
    const NEEDS_GUARD: bool = true;

    fn of(context: &mut StartContext) -> Option<Self> {
        Some(context.share())
    }
}

/// What a body with both `guard` and `when` sees; with `OR`, it has a fallback, too.
#[derive(Debug)]
pub struct Seen<const OR: bool> {
    guard: Option<Arc<LockGuard>>,
    is_busy: bool,
}

impl<const OR: bool> Seen<OR> {
    /// Its guard; `None` for a call that needs no lock or only records what would have blocked it, and for the fallback.
    pub fn guard(&self) -> Option<&LockGuard> {
        self.guard.as_deref()
    }

    /// True if another holder has the lock.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }
}

impl<const OR: bool> View for Seen<OR> {
    const WAIT: Option<Wait> = if OR { Some(Wait::None) } else { None };
    const NEEDS_GUARD: bool = false;

    fn of(context: &mut StartContext) -> Option<Self> {
        let is_busy = matches!(context, StartContext::Busy);
        (OR || !is_busy).then(|| Self { guard: context.share(), is_busy })
    }
}

/// Makes a body from its view. A trait and not a bound on `FnOnce`, so that the type of the body follows from
/// the type of the closure. As a second type parameter it would be compared again, without its lifetimes, when
/// the compiler checks whether a future is `Send`, and that check would fail.
pub trait Make<V> {
    /// The running body.
    type Body: Future;
    /// Starts the body.
    fn make(self, view: V) -> Self::Body;
}

impl<V, C: FnOnce(V) -> F, F: Future> Make<V> for C {
    type Body = F;

    fn make(self, view: V) -> F {
        self(view)
    }
}

pin_project! {
    /// A body that is created from its view.
    pub struct Seeing<V, C: Make<V>> {
        #[pin]
        stage: Stage<C, C::Body>,
        view: PhantomData<fn(V)>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<C, F> {
        Waiting { make: Option<C> },
        Running { #[pin] body: F },
        Over,
    }
}

impl<V, C: Make<V>> Seeing<V, C> {
    fn new(make: C) -> Self {
        Self { stage: Stage::Waiting { make: Some(make) }, view: PhantomData }
    }
}

opaque_debug!(<V, C: Make<V>> Seeing<V, C>);

/// Wraps a body with `guard = name`, which gets its guard.
pub fn body_with_guard<C, F>(make: C) -> Seeing<Arc<LockGuard>, C>
where
    C: FnOnce(Arc<LockGuard>) -> F,
    F: Future,
{
    Seeing::new(make)
}

/// Wraps a body with `on_busy = fallback(path)`, which learns whether another holder has the lock.
pub fn body_or<C, F>(make: C) -> Seeing<bool, C>
where
    C: FnOnce(bool) -> F,
    F: Future,
{
    Seeing::new(make)
}

/// Wraps a body with both, which gets its guard, or none while another holder has the lock.
pub fn body_with_guard_or<C, F>(make: C) -> Seeing<Option<Arc<LockGuard>>, C>
where
    C: FnOnce(Option<Arc<LockGuard>>) -> F,
    F: Future,
{
    Seeing::new(make)
}

/// Wraps a body with `guard = name` and `when = …`, which gets its guard if there is one.
pub fn body_with_guard_if<C, F>(make: C) -> Seeing<Seen<false>, C>
where
    C: FnOnce(Seen<false>) -> F,
    F: Future,
{
    Seeing::new(make)
}

/// Wraps a body with those and a fallback.
pub fn body_with_guard_if_or<C, F>(make: C) -> Seeing<Seen<true>, C>
where
    C: FnOnce(Seen<true>) -> F,
    F: Future,
{
    Seeing::new(make)
}

impl<V: View, C: Make<V>> Body for Seeing<V, C> {
    type Output = <C::Body as Future>::Output;

    const WAIT: Option<Wait> = V::WAIT;
    const NEEDS_GUARD: bool = V::NEEDS_GUARD;

    fn start(self: Pin<&mut Self>, context: &mut StartContext) -> bool {
        let mut stage = self.project().stage;
        let StageProjection::Waiting { make } = stage.as_mut().project() else { return false };
        let (Some(make), Some(view)) = (make.take(), V::of(context)) else { return false };
        stage.set(Stage::Running { body: make.make(view) });
        true
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        let StageProjection::Running { body } = stage.as_mut().project() else {
            return Poll::Pending;
        };
        let value = ready!(body.poll(cx));
        stage.set(Stage::Over);
        Poll::Ready(value)
    }

    fn end(self: Pin<&mut Self>) {
        self.project().stage.set(Stage::Over);
    }
}

/// Calls the body of a function that returns a future.
pub fn future<F: Future>(body: impl FnOnce() -> F) -> F {
    body()
}

/// Turns a fallback's result into the body's future.
pub fn instead<F: IntoFuture>(fallback: F) -> F::IntoFuture {
    fallback.into_future()
}

/// Never called: it shows the compiler which values a body captures.
pub fn whole<T>(_: T) {}

/// Never called: it gives the compiler the type of a body.
pub fn never<T>() -> T {
    loop {
        std::thread::park();
    }
}
