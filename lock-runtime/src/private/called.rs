//! Annotated plain functions: as [`call`](super::call), on a thread.

use std::marker::PhantomData;
use std::sync::Arc;

use super::body::StartContext;
use super::call::Returns;
use super::returns::{ErrorReturn, SkipReturn};
use super::spec::{About, CallSpec, Lock};
use super::state::{CanSay, without_lock};
use crate::blocking::LockGuard;
use crate::error::LockError;
use crate::opaque::opaque_debug;
use crate::options::Wait;

/// Calls `body` under the lock; any failure of the lock is returned as an error, unless the body has a fallback for a
/// busy lock.
pub fn called<B: BlockingBody>(spec: CallSpec, body: B) -> B::Output
where
    B::Output: ErrorReturn,
{
    let returns = Returns { failed: B::Output::failed, skipped: None };
    call(spec, body, B::WAIT, &returns, true)
}

/// Calls `body` under the lock, or skips it if another holder has the lock. Does not wait by default.
///
/// # Panics
///
/// If there is no client or the caller is an async task, and the return type has no value for that: the body would
/// never run.
#[track_caller]
pub fn called_or_skip<B: BlockingBody>(spec: CallSpec, body: B) -> B::Output
where
    B::Output: SkipReturn,
{
    let spec = if B::Output::HAS_ERRORS { spec } else { spec.require_client() };
    let returns = Returns { failed: B::Output::failed, skipped: Some(B::Output::skipped) };
    call(spec, body, Some(Wait::Never), &returns, B::Output::HAS_ERRORS)
}

#[track_caller]
fn call<B: BlockingBody>(
    spec: CallSpec,
    body: B,
    unless_said: Option<Wait>,
    returns: &Returns<B::Output>,
    has_errors: bool,
) -> B::Output {
    // A body that needs its guard has no `when`: the attribute refuses the two together.
    let body = match (spec.is_wanted(), body) {
        (true, body) => body,
        (false, body) => match body.without(&StartContext::Nothing) {
            Ok(value) => return value,
            Err(body) => body,
        },
    };
    let can_say = CanSay { errors: has_errors, skipped: returns.skipped.is_some() };
    let site = spec.site();
    let lock = spec
        .lock(unless_said, B::NEEDS_GUARD, can_say)
        .unwrap_or_else(|error| Lock::failed(site, error));
    let Lock { acquire, on_release_lost, enforced, about, driver } = lock;
    let error = match driver.wait(acquire) {
        Ok(guard) => {
            let hold = Arc::clone(guard.hold());
            let guard = LockGuard::new(guard, &driver);
            let under = |hold: &LockGuard| body.under(hold);
            match guard.run_and_release(enforced, on_release_lost, under) {
                Ok(value) => return value,
                Err(error) => {
                    About::of(&hold).log_failure(&error, can_say, true);
                    return returns.error(error);
                }
            }
        }
        Err(error) => error,
    };
    if let Some(context) = without_lock(&error, enforced)
        && let Ok(value) = body.without(&context)
    {
        return value;
    }
    // As without a client: the body would never run, and the caller would not notice.
    if !has_errors && matches!(error, LockError::InAsyncTask) {
        panic!("`{}` needs its lock: {error}", site.name());
    }
    if let Some(about) = about {
        about.log_failure(&error, can_say, false);
    }
    returns.error(error)
}

/// The body of a plain function.
pub trait BlockingBody: Sized {
    /// What the body returns.
    type Output;
    /// How long to wait if neither the call nor its policy sets it. A body with a fallback does not wait.
    const WAIT: Option<Wait> = None;
    /// True if it cannot be called without a lock.
    const NEEDS_GUARD: bool = false;

    /// Calls it under its lock.
    fn under(self, hold: &LockGuard) -> Self::Output;

    /// Calls it without a lock.
    ///
    /// # Errors
    ///
    /// The body itself, if it does nothing in this context.
    fn without(self, context: &StartContext) -> Result<Self::Output, Self>;
}

/// A body in one of the forms that expansions pass: `K` tells what it sees.
pub struct Function<C, T, K> {
    body: C,
    form: PhantomData<fn(K) -> T>,
}

opaque_debug!(<C, T, K> Function<C, T, K>);

/// It sees nothing.
#[derive(Debug)]
pub enum Plain {}

/// It sees its guard.
#[derive(Debug)]
pub enum WithGuard {}

/// It learns whether another holder has the lock.
#[derive(Debug)]
pub enum Or {}

/// It sees its guard, or none while another holder has the lock.
#[derive(Debug)]
pub enum WithGuardOr {}

fn form<C, T, K>(body: C) -> Function<C, T, K> {
    Function { body, form: PhantomData }
}

/// Wraps a body that does not access its guard.
pub fn function<T, C: FnOnce() -> T>(body: C) -> Function<C, T, Plain> {
    form(body)
}

/// Wraps a body with `guard = name`, which gets its guard.
pub fn function_with_guard<T, C>(body: C) -> Function<C, T, WithGuard>
where
    C: FnOnce(&LockGuard) -> T,
{
    form(body)
}

/// Wraps a body with `on_busy = fallback(path)`, which learns whether another holder has the lock.
pub fn function_or<T, C: FnOnce(bool) -> T>(body: C) -> Function<C, T, Or> {
    form(body)
}

/// Wraps a body with both, which gets its guard, or none while another holder has the lock.
pub fn function_with_guard_or<T, C>(body: C) -> Function<C, T, WithGuardOr>
where
    C: FnOnce(Option<&LockGuard>) -> T,
{
    form(body)
}

impl<T, C: FnOnce() -> T> BlockingBody for Function<C, T, Plain> {
    type Output = T;

    fn under(self, _: &LockGuard) -> T {
        (self.body)()
    }

    fn without(self, context: &StartContext) -> Result<T, Self> {
        match context {
            StartContext::Busy => Err(self),
            _ => Ok((self.body)()),
        }
    }
}

impl<T, C: FnOnce(&LockGuard) -> T> BlockingBody for Function<C, T, WithGuard> {
    type Output = T;

    const NEEDS_GUARD: bool = true;

    fn under(self, hold: &LockGuard) -> T {
        (self.body)(hold)
    }

    fn without(self, _: &StartContext) -> Result<T, Self> {
        Err(self)
    }
}

impl<T, C: FnOnce(bool) -> T> BlockingBody for Function<C, T, Or> {
    type Output = T;

    const WAIT: Option<Wait> = Some(Wait::Never);

    fn under(self, _: &LockGuard) -> T {
        (self.body)(false)
    }

    fn without(self, context: &StartContext) -> Result<T, Self> {
        Ok((self.body)(matches!(context, StartContext::Busy)))
    }
}

impl<T, C: FnOnce(Option<&LockGuard>) -> T> BlockingBody for Function<C, T, WithGuardOr> {
    type Output = T;

    const WAIT: Option<Wait> = Some(Wait::Never);
    const NEEDS_GUARD: bool = true;

    fn under(self, hold: &LockGuard) -> T {
        (self.body)(Some(hold))
    }

    fn without(self, _: &StartContext) -> Result<T, Self> {
        Ok((self.body)(None))
    }
}
