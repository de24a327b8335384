//! What annotated functions return, dispatched by trait so that aliases work.

use crate::error::LockError;

/// What a function with `on_busy = error` returns.
#[diagnostic::on_unimplemented(
    message = "`#[distributed_lock]` cannot report a failed lock in `{Self}`",
    label = "not a `Result` whose error can be made from `LockError`",
    note = "return `Result<T, E>` where `E: From<LockError>`, or use `on_busy = skip` with \
            `Option<T>` or `()`"
)]
pub trait ErrorReturn {
    /// The value that says that the lock failed.
    fn failed(error: LockError) -> Self;
}

// Else the compiler would speak of `From` alone.
#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> ErrorReturn for Result<T, E> {
    fn failed(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// What a function with `on_busy = skip` returns.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` cannot say \"skipped\" in `{Self}`",
    label = "no value of this type means \"skipped\"",
    note = "return `()`, `Option<T>`, `Result<(), E>` or `Result<Option<T>, E>` where \
            `E: From<LockError>`"
)]
pub trait SkipReturn {
    /// Whether a failure can be told from a skipped run.
    const HAS_ERRORS: bool;
    /// The value that says that another holder had the lock.
    fn skipped() -> Self;
    /// The value that says that the lock failed. Where that has no room for the error, the log has it.
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

/// The `T` of a `Result<T, E>` that can say "skipped".
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` cannot say \"skipped\" in a `Result` of `{Self}`",
    note = "return `Result<(), E>` or `Result<Option<T>, E>`"
)]
pub trait SkippedValue {
    /// The value that says it.
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
