//! What each request looks like on the wire: its script, keys and arguments.

use std::time::Duration;

use redis::Cmd;

use super::script::{MUTEX_ACQUIRE, MUTEX_RELEASE, Part};
use crate::store::{AcquireRequest, ReleaseRequest};

/// How long a fencing counter outlives its last use (S-23).
const COUNTER_EXPIRY: Duration = Duration::from_secs(24 * 60 * 60);

/// A request that goes out alone or together with others.
#[derive(Debug)]
pub(super) enum Ask {
    Acquire(AcquireRequest),
    Release(ReleaseRequest),
}

impl Ask {
    pub(super) fn part(&self) -> &'static Part {
        match self {
            Self::Acquire(_) => &MUTEX_ACQUIRE,
            Self::Release(_) => &MUTEX_RELEASE,
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Acquire(request) => request.timeout,
            Self::Release(request) => request.timeout,
        }
    }

    /// The request by itself.
    pub(super) fn alone(&self) -> Cmd {
        let mut call = self.part().call();
        self.write_keys(&mut call);
        self.write_args(&mut call);
        call
    }

    pub(super) fn write_keys(&self, call: &mut Cmd) {
        match self {
            Self::Acquire(AcquireRequest { target, .. }) => {
                call.arg(target.key().as_str()).arg(target.fence_counter());
            }
            Self::Release(ReleaseRequest { target, .. }) => {
                call.arg(target.key().as_str());
            }
        }
    }

    pub(super) fn write_args(&self, call: &mut Cmd) {
        match self {
            Self::Acquire(AcquireRequest { owner, lease, tokens, .. }) => {
                call.arg(owner.as_field()).arg(millis(*lease)).arg(tokens);
                call.arg(millis(COUNTER_EXPIRY));
            }
            Self::Release(ReleaseRequest { target, owner, .. }) => {
                call.arg(owner.as_field()).arg(target.channel());
            }
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
