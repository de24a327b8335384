//! Return types of annotated functions, dispatched by trait so that aliases work.
//!
//! Expansions call the methods of these traits by their paths, and nothing has a bound on them: so a failing one is reported
//! at the return type alone, without the code of this crate.

use crate::error::LockError;

/// What a failed lock becomes in a return type `T` with the error `E`. Function pointers and not a bound on the future: a
/// failing bound would be reported for the call and once more for its `.await`.
#[derive(Debug)]
pub struct Returns<T, E> {
    error: fn(LockError) -> E,
    failed: fn(E) -> T,
    /// `None` without `on_busy = skip`.
    skipped: Option<fn() -> T>,
    /// False if the type has no room for an error: the log reports it.
    has_errors: bool,
}

impl<T, E> Returns<T, E> {
    /// The value for a failure of the lock.
    pub(super) fn error(&self, error: LockError) -> T {
        match self.skipped {
            Some(skipped) if error.is_contended() => skipped(),
            _ => (self.failed)((self.error)(error)),
        }
    }

    pub(super) fn can_say(&self) -> CanSay {
        CanSay { errors: self.has_errors, skipped: self.skipped.is_some() }
    }
}

/// The results for which a function's return type has a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct CanSay {
    pub(super) errors: bool,
    pub(super) skipped: bool,
}

impl CanSay {
    /// True if some failure is logged, because the return type cannot express it.
    pub(super) fn logs(self) -> bool {
        self.skipped || !self.errors
    }
}

/// What `map_err` names: makes the error of a function of a failed lock.
pub type MapErr<E> = fn(LockError) -> E;

/// A return type of a function with `on_busy = error`.
#[diagnostic::on_unimplemented(
    message = "`#[distributed_lock]` cannot report a failed lock in `{Self}`",
    label = "not a `Result` with the error that a failed lock becomes",
    note = "return `Result<T, E>` where `E: From<LockError>` or `map_err` makes the `E`, or use `on_busy = skip` with \
            `Result<Option<T>, E>`, `Option<T>` or `()`"
)]
pub trait ErrorReturn<E>: Sized {
    /// Returns the values for failures; `error` is `map_err`, or `FromLockError::from_lock_error`.
    fn returns(error: fn(LockError) -> E) -> Returns<Self, E>;
}

// Otherwise the compiler would show this impl, which is not the user's.
#[diagnostic::do_not_recommend]
impl<T, E> ErrorReturn<E> for Result<T, E> {
    fn returns(error: fn(LockError) -> E) -> Returns<Self, E> {
        Returns { error, failed: Err, skipped: None, has_errors: true }
    }
}

/// The error of a function without `map_err`.
#[diagnostic::on_unimplemented(
    message = "`#[distributed_lock]` cannot report a failed lock as `{Self}`",
    label = "`{Self}` is not made from a `LockError`",
    note = "implement `From<LockError>` for `{Self}`, or name a function that makes one: `map_err = path` of a \
            `fn(LockError) -> {Self}`"
)]
pub trait FromLockError {
    /// Returns the error.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<LockError>> FromLockError for E {
    fn from_lock_error(error: LockError) -> Self {
        error.into()
    }
}

/// A return type of a function with `on_busy = skip`.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` cannot say \"skipped\" in `{Self}`",
    label = "no value of this type means \"skipped\"",
    note = "return `Result<Option<T>, E>` or `Result<(), E>`, where `E: From<LockError>` or `map_err` makes the `E`; or \
            `Option<T>` or `()`, with failures in the log only and without `map_err`"
)]
pub trait SkipReturn<E>: Sized {
    /// As [`ErrorReturn::returns`].
    fn returns(error: fn(LockError) -> E) -> Returns<Self, E>;
}

/// The error of a return type that has no room for one.
#[derive(Debug)]
pub struct NoError;

impl From<LockError> for NoError {
    fn from(_: LockError) -> Self {
        Self
    }
}

#[diagnostic::do_not_recommend]
impl SkipReturn<NoError> for () {
    fn returns(error: fn(LockError) -> NoError) -> Returns<Self, NoError> {
        Returns { error, failed: |NoError| (), skipped: Some(|| ()), has_errors: false }
    }
}

#[diagnostic::do_not_recommend]
impl<T> SkipReturn<NoError> for Option<T> {
    fn returns(error: fn(LockError) -> NoError) -> Returns<Self, NoError> {
        Returns { error, failed: |NoError| None, skipped: Some(|| None), has_errors: false }
    }
}

#[diagnostic::do_not_recommend]
impl<E> SkipReturn<E> for Result<(), E> {
    fn returns(error: fn(LockError) -> E) -> Returns<Self, E> {
        Returns { error, failed: Err, skipped: Some(|| Ok(())), has_errors: true }
    }
}

#[diagnostic::do_not_recommend]
impl<T, E> SkipReturn<E> for Result<Option<T>, E> {
    fn returns(error: fn(LockError) -> E) -> Returns<Self, E> {
        Returns { error, failed: Err, skipped: Some(|| Ok(None)), has_errors: true }
    }
}
