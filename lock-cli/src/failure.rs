//! Failures, in one sentence, and exit codes.

use std::error::Error;
use std::ffi::OsStr;
use std::io;

use lock_runtime::LockError;
use lock_runtime::error::StoreErrorKind;

/// Fine.
pub(crate) const FINE: u8 = 0;
/// What was asked for is not there, or is refused.
pub(crate) const NO: u8 = 1;
/// The command line or a file is wrong.
const USAGE: u8 = 2;
/// The store failed.
const STORE: u8 = 3;
/// Another holder has the lock of `run`: EX_TEMPFAIL, "try again later".
pub(crate) const BUSY: u8 = 75;
/// The lock of `run` was lost before its command had ended.
pub(crate) const LOST: u8 = 76;
/// As shells say it: the command of `run` cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// As shells say it: the command of `run` is not found.
const NOT_FOUND: u8 = 127;
/// As shells say it: added to the number of the signal that ended the command of `run`.
pub(crate) const SIGNALLED: u8 = 128;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { code: NO, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    pub(crate) fn store(message: impl Into<String>) -> Self {
        Self { code: STORE, message: message.into() }
    }

    /// The command of `run` cannot be started.
    pub(crate) fn not_started(program: &OsStr, error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        Self { code, message: format!("{} cannot be started: {error}", program.display()) }
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let message = with_causes(&error);
        match error {
            LockError::KeyCollision { .. } => Self::refused(message),
            LockError::InvalidKey { .. } | LockError::InvalidOptions(_) => Self::usage(message),
            // The address on the command line.
            LockError::Store(error) if error.kind() == StoreErrorKind::Config => {
                Self::usage(message)
            }
            _ => Self::store(message),
        }
    }
}

/// The error and its causes in one sentence, without what an earlier part has said already.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !sentence.contains(&cause_text) {
            sentence = format!("{sentence}: {cause_text}");
        }
        source = cause.source();
    }
    sentence
}
