//! Annotated plain functions: as [`call`](super::call), on a thread.

use std::marker::PhantomData;
use std::sync::Arc;

use super::body::StartContext;
use super::returns::Returns;
use super::spec::{About, CallSpec, Lock};
use super::state::{CanSay, without_lock};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::opaque::opaque_debug;
use crate::options::Wait;
use crate::own_runtime::block_on;

/// Calls `body` under the lock; any failure of the lock is returned as `returns` says, unless the body has a fallback for a
/// busy lock.
///
/// # Panics
///
/// If there is no client or the caller is an async task, and the return type has no value for that: the body would
/// never run.
#[track_caller]
pub fn called<B: BlockingBody, E>(
    spec: CallSpec,
    body: B,
    returns: Returns<B::Output, E>,
) -> B::Output {
    let can_say = CanSay::of(&returns);
    let spec = if can_say.errors { spec } else { spec.require_client() };
    let unless_said = if can_say.skipped { Some(Wait::None) } else { B::WAIT };
    // A body that cannot do without its guard has no `when`.
    let body = match (spec.is_wanted(), body) {
        (true, body) => body,
        (false, body) => match body.without(&StartContext::Nothing) {
            Ok(value) => return value,
            Err(body) => body,
        },
    };
    let site = spec.site();
    let lock = spec
        .lock(unless_said, B::NEEDS_GUARD, can_say)
        .unwrap_or_else(|error| Lock::failed(site, error));
    let Lock { acquire, terms, enforced, about } = lock;
    let error = match block_on(acquire) {
        Ok(guard) => {
            let hold = Arc::clone(guard.hold());
            let under = |hold: &LockGuard| body.under(hold);
            match guard.run_and_release(enforced, terms, under) {
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
    if !can_say.errors && matches!(error, LockError::InAsyncTask) {
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

/// It sees its guard, or none for a call that needs no lock.
#[derive(Debug)]
pub enum WithGuardIf {}

/// It sees that, and whether another holder has the lock.
#[derive(Debug)]
pub enum WithGuardIfOr {}

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

/// Wraps a body with `guard = name` and `when = …`, which gets its guard if there is one.
pub fn function_with_guard_if<T, C>(body: C) -> Function<C, T, WithGuardIf>
where
    C: FnOnce(Option<&LockGuard>) -> T,
{
    form(body)
}

/// Wraps a body with those and a fallback.
pub fn function_with_guard_if_or<T, C>(body: C) -> Function<C, T, WithGuardIfOr>
where
    C: FnOnce((bool, Option<&LockGuard>)) -> T,
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

    const WAIT: Option<Wait> = Some(Wait::None);

    fn under(self, _: &LockGuard) -> T {
        (self.body)(false)
    }

    fn without(self, context: &StartContext) -> Result<T, Self> {
        Ok((self.body)(matches!(context, StartContext::Busy)))
    }
}

impl<T, C: FnOnce(Option<&LockGuard>) -> T> BlockingBody for Function<C, T, WithGuardOr> {
    type Output = T;

    const WAIT: Option<Wait> = Some(Wait::None);
    const NEEDS_GUARD: bool = true;

    fn under(self, hold: &LockGuard) -> T {
        (self.body)(Some(hold))
    }

    fn without(self, _: &StartContext) -> Result<T, Self> {
        Ok((self.body)(None))
    }
}

impl<T, C: FnOnce(Option<&LockGuard>) -> T> BlockingBody for Function<C, T, WithGuardIf> {
    type Output = T;

    fn under(self, hold: &LockGuard) -> T {
        (self.body)(Some(hold))
    }

    fn without(self, context: &StartContext) -> Result<T, Self> {
        match context {
            StartContext::Busy => Err(self),
            _ => Ok((self.body)(None)),
        }
    }
}

impl<T, C: FnOnce((bool, Option<&LockGuard>)) -> T> BlockingBody for Function<C, T, WithGuardIfOr> {
    type Output = T;

    const WAIT: Option<Wait> = Some(Wait::None);

    fn under(self, hold: &LockGuard) -> T {
        (self.body)((false, Some(hold)))
    }

    fn without(self, context: &StartContext) -> Result<T, Self> {
        Ok((self.body)((matches!(context, StartContext::Busy), None)))
    }
}
