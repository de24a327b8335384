//! Return types of annotated functions, dispatched by trait so that aliases work.

use crate::error::LockError;

/// A return type of a function with `on_busy = error`.
#[diagnostic::on_unimplemented(
    message = "`#[distributed_lock]` cannot report a failed lock in `{Self}`",
    label = "not a `Result` whose error can be made from `LockError`",
    note = "return `Result<T, E>` where `E: From<LockError>`, or use `on_busy = skip` with \
            `Option<T>` or `()`"
)]
pub trait ErrorReturn {
    /// Returns the value for a failure of the lock.
    fn failed(error: LockError) -> Self;
}

// Otherwise the compiler would mention only `From`.
#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> ErrorReturn for Result<T, E> {
    fn failed(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// A return type of a function with `on_busy = skip`.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` cannot say \"skipped\" in `{Self}`",
    label = "no value of this type means \"skipped\"",
    note = "return `()`, `Option<T>`, `Result<(), E>` or `Result<Option<T>, E>` where \
            `E: From<LockError>`"
)]
pub trait SkipReturn {
    /// True if a failure differs from a skipped run.
    const HAS_ERRORS: bool;
    /// Returns the value for a lock that another holder has.
    fn skipped() -> Self;
    /// Returns the value for a failure of the lock. If the type has no room for the error, the log reports it.
    fn failed(error: LockError) -> Self;
}

impl SkipReturn for () {
    const HAS_ERRORS: bool = false;

    fn skipped() {}

    fn failed(_: LockError) {}
}

impl<T> SkipReturn for Option<T> {
    const HAS_ERRORS: bool = false;

    fn skipped() -> Self {
        None
    }

    fn failed(_: LockError) -> Self {
        None
    }
}

impl<T: SkippedValue, E: From<LockError>> SkipReturn for Result<T, E> {
    const HAS_ERRORS: bool = true;

    fn skipped() -> Self {
        Ok(T::skipped())
    }

    fn failed(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// The `T` of a `Result<T, E>` that has a value for "skipped".
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` cannot say \"skipped\" in a `Result` of `{Self}`",
    note = "return `Result<(), E>` or `Result<Option<T>, E>`"
)]
pub trait SkippedValue {
    /// Returns that value.
    fn skipped() -> Self;
}

impl SkippedValue for () {
    fn skipped() {}
}

impl<T> SkippedValue for Option<T> {
    fn skipped() -> Self {
        None
    }
}
