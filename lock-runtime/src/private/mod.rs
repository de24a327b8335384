//! What expansions of `#[distributed_lock]` call, and nothing else. Not part of the public API.
//!
//! An expansion is one call of [`locked`] or [`locked_or_skip`]; all policy is here.

mod returns;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

pub use self::returns::{ErrorReturn, SkipReturn, SkippedValue};
use crate::acquire::Acquire;
use crate::client::LockClient;
use crate::error::LockError;
use crate::guard::{LockGuard, Release, RunOwned};
use crate::key::{IntoLockKey, KeyPart, LockKey};
use crate::options::{Lease, OnLost, Wait};

/// Where an attribute stands and what it locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockSite {
    /// Module path and function name.
    pub name: &'static str,
    /// The key as it was written.
    pub key: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line of the attribute.
    pub line: u32,
}

/// A piece of a key template.
#[expect(missing_debug_implementations, reason = "holds values that need not be `Debug`")]
#[derive(Clone, Copy)]
pub enum Piece<'a> {
    /// Text between placeholders.
    Text(&'a str),
    /// A value, to be escaped.
    Part(&'a dyn KeyPart),
    /// A value that goes in as it is.
    Raw(&'a dyn KeyPart),
}

/// Builds a key from a template's pieces.
pub fn template(pieces: &[Piece<'_>]) -> Result<LockKey, LockError> {
    let add = |key: crate::key::LockKeyBuilder, piece: &Piece<'_>| match *piece {
        Piece::Text(text) => key.text(text),
        Piece::Part(part) => key.part(part),
        Piece::Raw(part) => key.raw(part),
    };
    pieces.iter().fold(LockKey::builder(), add).build()
}

/// Takes a key from an expression.
pub fn key<K: IntoLockKey>(key: K) -> Result<LockKey, LockError> {
    key.into_lock_key()
}

/// What may be given as `client = …`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock client",
    note = "`client = …` takes a `LockClient`, a reference to one, or an `Arc` of one"
)]
pub trait AsClient {
    /// The client.
    fn as_client(&self) -> &LockClient;
}

impl AsClient for LockClient {
    fn as_client(&self) -> &LockClient {
        self
    }
}

impl<C: AsClient + ?Sized> AsClient for &C {
    fn as_client(&self) -> &LockClient {
        (**self).as_client()
    }
}

impl<C: AsClient + ?Sized> AsClient for Arc<C> {
    fn as_client(&self) -> &LockClient {
        (**self).as_client()
    }
}

/// Takes a client from an expression.
pub fn client<C: AsClient + ?Sized>(client: &C) -> LockClient {
    client.as_client().clone()
}

/// What an attribute says; what it leaves out is the client's business.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `client = …`
    pub client: Option<LockClient>,
    /// `wait = …`
    pub wait: Option<Wait>,
    /// `lease = …`
    pub lease: Option<Lease>,
    /// `on_lost = …`
    pub on_lost: OnLost,
}

/// A function body that can be started once the lock is held.
pub trait Body {
    /// What the body returns.
    type Output;
    /// The body under way.
    type Future: Future<Output = Self::Output>;
    /// How the guard is kept while it runs.
    type Guard: AsRef<LockGuard>;

    /// Starts it.
    fn start(self, guard: LockGuard) -> (Self::Guard, Self::Future);
    /// The guard, for its release.
    fn guard_back(guard: Self::Guard) -> Option<LockGuard>;
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

/// Runs `body` under the lock; any failure of the lock is returned as an error.
pub fn locked<B: Body>(
    site: &'static LockSite,
    key: Result<LockKey, LockError>,
    settings: Settings,
    body: B,
) -> Locked<B>
where
    B::Output: ErrorReturn,
{
    Locked { call: Call::new(site, key, settings, body) }
}

/// Runs `body` under the lock, or skips it if somebody else has the lock. Does not wait unless told.
pub fn locked_or_skip<B: Body>(
    site: &'static LockSite,
    key: Result<LockKey, LockError>,
    mut settings: Settings,
    body: B,
) -> LockedOrSkip<B>
where
    B::Output: SkipReturn,
{
    settings.wait.get_or_insert(Wait::Never);
    LockedOrSkip { call: Call::new(site, key, settings, body) }
}

pin_project! {
    #[project = CallProjection]
    enum Call<B: Body> {
        Acquiring { acquire: Acquire, body: Option<B> },
        Running { #[pin] run: RunOwned<B::Guard, B::Future> },
        Releasing { release: Release, result: Option<Result<B::Output, LockError>> },
    }
}

impl<B: Body> Call<B> {
    fn new(
        site: &'static LockSite,
        key: Result<LockKey, LockError>,
        settings: Settings,
        body: B,
    ) -> Self {
        let acquire = start(site, key, settings).unwrap_or_else(Acquire::failed);
        Self::Acquiring { acquire, body: Some(body) }
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<B::Output, LockError>> {
        loop {
            let next = match self.as_mut().project() {
                CallProjection::Acquiring { acquire, body } => {
                    let acquired = ready!(Pin::new(acquire).poll(cx));
                    // Polled after completion.
                    let Some(body) = body.take() else { return Poll::Pending };
                    let (guard, future) = match acquired {
                        Ok(guard) => body.start(guard),
                        Err(error) => return Poll::Ready(Err(error)),
                    };
                    Self::Running { run: RunOwned::new(guard, future) }
                }
                CallProjection::Running { run } => {
                    let (guard, result) = ready!(run.poll(cx));
                    match B::guard_back(guard) {
                        Some(guard) => {
                            Self::Releasing { release: guard.release(), result: Some(result) }
                        }
                        None => return Poll::Ready(result),
                    }
                }
                CallProjection::Releasing { release, result } => {
                    let released = ready!(Pin::new(release).poll(cx));
                    // S-13: a body that ended in time keeps its value; a loss that stopped it is in
                    // the result already.
                    if let (Err(error), Some(Ok(_))) = (&released, &*result) {
                        tracing::warn!(
                            error = error as &dyn std::error::Error,
                            "the body ended, but its release failed"
                        );
                    }
                    return result.take().map_or(Poll::Pending, Poll::Ready);
                }
            };
            self.set(next);
        }
    }
}

fn start(
    site: &'static LockSite,
    key: Result<LockKey, LockError>,
    settings: Settings,
) -> Result<Acquire, LockError> {
    let key = key?;
    let client = settings
        .client
        .or_else(LockClient::current)
        .ok_or_else(|| LockError::NoClient { site: site.name.to_owned() })?;
    let mut options = client.options().to_builder().on_lost(settings.on_lost);
    if let Some(wait) = settings.wait {
        options = options.wait(wait);
    }
    if let Some(lease) = settings.lease {
        options = options.lease(lease);
    }
    Ok(client.mutex(key).with(options.build()?).lock())
}

pin_project! {
    /// A locked function under way: see [`locked`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<B: Body> {
        #[pin]
        call: Call<B>,
    }
}

impl<B: Body> Future for Locked<B>
where
    B::Output: ErrorReturn,
{
    type Output = B::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<B::Output> {
        let result = ready!(self.project().call.poll(cx));
        Poll::Ready(result.unwrap_or_else(B::Output::failed))
    }
}

impl<B: Body> fmt::Debug for Locked<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").finish_non_exhaustive()
    }
}

pin_project! {
    /// A locked or skipped function under way: see [`locked_or_skip`].
    #[must_use = "futures do nothing unless polled"]
    pub struct LockedOrSkip<B: Body> {
        #[pin]
        call: Call<B>,
    }
}

impl<B: Body> Future for LockedOrSkip<B>
where
    B::Output: SkipReturn,
{
    type Output = B::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<B::Output> {
        Poll::Ready(match ready!(self.project().call.poll(cx)) {
            Ok(value) => value,
            Err(error) if error.is_busy() => B::Output::skipped(),
            Err(error) => B::Output::failed(error),
        })
    }
}

impl<B: Body> fmt::Debug for LockedOrSkip<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedOrSkip").finish_non_exhaustive()
    }
}
