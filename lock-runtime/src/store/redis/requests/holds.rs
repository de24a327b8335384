//! Acquiring and releasing, by kind of lock.

use std::time::Duration;

use super::calls::{millis, read_timeout};
use crate::store::redis::scripts::{
    Arguments, FAIR_ACQUIRE, FAIR_RELEASE, MULTI_ACQUIRE, MULTI_RELEASE, MUTEX_ACQUIRE,
    MUTEX_RELEASE, PERMIT_ACQUIRE, PERMIT_RELEASE, Part, Publish, READ_ACQUIRE, READ_RELEASE,
    Script, ScriptCall, WRITE_ACQUIRE, WRITE_RELEASE,
};
use crate::store::unsent::dropped_unsent;
use crate::store::{AcquireRequest, HoldKind, OwnerId, ReleaseRequest, Target};

/// A request that is sent alone or together with others.
#[derive(Debug)]
pub(crate) enum HoldRequest {
    Acquire(AcquireRequest),
    Release(ReleaseRequest),
}

impl HoldRequest {
    fn parts(&self) -> (&Target, &OwnerId, Duration) {
        match self {
            Self::Acquire(request) => (&request.target, &request.owner, request.timeout),
            Self::Release(request) => (&request.target, &request.owner, request.timeout),
        }
    }

    /// Tells the caller that drops it that it was not sent. A release is repeated anyway.
    pub(crate) fn dropped_unsent(&self) {
        if let Self::Acquire(request) = self {
            dropped_unsent(&request.owner);
        }
    }

    pub(crate) fn target(&self) -> &Target {
        self.parts().0
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.parts().2
    }

    /// The script, if it has a fixed number of keys, so that it can share a call with others.
    pub(crate) fn part(&self) -> Option<&'static Part> {
        Some(match (self, self.target().kind()) {
            (Self::Acquire(_), HoldKind::Mutex) => &MUTEX_ACQUIRE,
            (Self::Release(_), HoldKind::Mutex) => &MUTEX_RELEASE,
            (Self::Acquire(_), HoldKind::Fair) => &FAIR_ACQUIRE,
            (Self::Release(_), HoldKind::Fair) => &FAIR_RELEASE,
            (Self::Acquire(_), HoldKind::Read) => &READ_ACQUIRE,
            (Self::Release(_), HoldKind::Read) => &READ_RELEASE,
            (Self::Acquire(_), HoldKind::Write) => &WRITE_ACQUIRE,
            (Self::Release(_), HoldKind::Write) => &WRITE_RELEASE,
            (Self::Acquire(_), HoldKind::Semaphore) => &PERMIT_ACQUIRE,
            (Self::Release(_), HoldKind::Semaphore) => &PERMIT_RELEASE,
            (_, HoldKind::Multi | HoldKind::Latch) => return None,
        })
    }

    /// The work of the script, compared with that of a mutex. Read and write locks look at each reader.
    pub(crate) fn work(&self) -> u32 {
        let (target, owner, _) = self.parts();
        match target.kind() {
            HoldKind::Read | HoldKind::Write => 16,
            HoldKind::Semaphore => owner.permits(),
            _ => 1,
        }
    }

    /// The script that runs this request alone, and its number of keys.
    fn script(&self) -> (&'static Script, usize) {
        let members = self.target().members().len();
        match (self.part(), self) {
            (Some(part), _) => (&part.script, part.keys),
            (None, Self::Acquire(_)) => (&*MULTI_ACQUIRE, 2 * members),
            (None, Self::Release(_)) => (&*MULTI_RELEASE, members),
        }
    }

    /// The call that sends this request alone.
    pub(crate) fn call(&self, publish: Publish) -> ScriptCall {
        let (script, keys) = self.script();
        script.call(publish, keys, |call| {
            self.write_keys(call);
            self.write_args(call);
        })
    }

    /// Writes that call as it is sent. Returns its number.
    pub(crate) fn pack(&self, publish: Publish, to: &mut Vec<u8>) -> u64 {
        let (script, keys) = self.script();
        script.pack(publish, keys, to, |call| {
            self.write_keys(call);
            self.write_args(call);
        })
    }

    pub(crate) fn write_keys(&self, call: &mut impl Arguments) {
        let (target, owner, _) = self.parts();
        let acquires = matches!(self, Self::Acquire(_));
        match target.members() {
            [] => {
                call.arg(target.key().as_str());
                if acquires {
                    call.arg(target.fence_counter());
                }
            }
            members => {
                for lock in members {
                    call.arg(lock.key().as_str());
                }
                for lock in members.iter().filter(|_| acquires) {
                    call.arg(lock.fence_counter());
                }
            }
        }
        let companions = target.companions();
        match target.kind() {
            HoldKind::Fair => call.arg(&companions[..2]),
            HoldKind::Semaphore => call.arg(&companions[..1]),
            // Of the waiting writers, the waiting readers, and those that are due.
            HoldKind::Read => {
                let waiting = if acquires { 0..3 } else { 1..3 };
                call.arg(&companions[waiting]).arg(read_timeout(target, owner))
            }
            HoldKind::Write => call.arg(&companions[if acquires { 0..3 } else { 0..1 }]),
            HoldKind::Mutex | HoldKind::Multi | HoldKind::Latch => call,
        };
    }

    /// True if both have the same shared arguments.
    pub(crate) fn shares_args_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Acquire(one), Self::Acquire(other)) => {
                one.lease == other.lease
                    && one.tokens == other.tokens
                    && one.target.token_ttl() == other.target.token_ttl()
                    && one.place == other.place
                    && shares_channels(&one.target, &other.target)
            }
            _ => shares_channels(self.target(), other.target()),
        }
    }

    /// Writes all arguments, in the order in which the script alone reads them.
    fn write_args(&self, call: &mut impl Arguments) {
        self.write_own_args(call);
        self.write_shared_args(call);
    }

    /// Writes the arguments that requests of the same script may share. Only those of mutexes do: their own come first.
    pub(crate) fn write_shared_args(&self, call: &mut impl Arguments) {
        match (self, self.target().kind()) {
            (Self::Acquire(request), HoldKind::Mutex) => write_terms(request, call),
            (Self::Acquire(request), HoldKind::Fair) => {
                write_terms(request, call);
                call.arg(request.place.map_or(0, millis)).arg(&request.target.companions()[2]);
            }
            (Self::Release(request), HoldKind::Fair) => {
                call.arg(&request.target.companions()[2]);
            }
            _ => {}
        }
    }

    /// Writes the arguments that differ between requests of the same script.
    pub(crate) fn write_own_args(&self, call: &mut impl Arguments) {
        let (target, owner, _) = self.parts();
        call.arg(owner.as_field());
        match self {
            Self::Acquire(_) if matches!(target.kind(), HoldKind::Mutex | HoldKind::Fair) => {}
            Self::Acquire(request) => write_acquire_args(request, call),
            Self::Release(request) => write_release_args(request, call),
        }
    }
}

/// True unless both are fair locks with different channels.
fn shares_channels(one: &Target, other: &Target) -> bool {
    one.kind() != HoldKind::Fair || one.key() == other.key()
}

/// For how long an acquire is to hold, and the tokens that it wants.
fn write_terms(request: &AcquireRequest, call: &mut impl Arguments) {
    // The counter of a long hold lasts at least as long as the hold.
    let counter_expiry = request.target.token_ttl().max(request.lease);
    call.arg(millis(request.lease)).arg(request.tokens).arg(millis(counter_expiry));
}

fn write_acquire_args(request: &AcquireRequest, call: &mut impl Arguments) {
    let AcquireRequest { target, owner, .. } = request;
    let companions = target.companions();
    write_terms(request, call);
    let place = request.place.map_or(0, millis);
    match target.kind() {
        HoldKind::Read => {
            let writer = owner.writer().unwrap_or_default();
            call.arg(u8::from(request.joins)).arg(writer).arg(place)
        }
        HoldKind::Write => call.arg(place).arg(&companions[3]),
        HoldKind::Semaphore => call.arg(owner.permits()).arg(target.limit()).arg(target.channel()),
        HoldKind::Mutex | HoldKind::Fair | HoldKind::Multi | HoldKind::Latch => call,
    };
}

fn write_release_args(request: &ReleaseRequest, call: &mut impl Arguments) {
    let ReleaseRequest { target, owner, .. } = request;
    let companions = target.companions();
    match target.kind() {
        // The prefix of a fair mutex' channels is a shared argument.
        HoldKind::Fair => call,
        HoldKind::Mutex | HoldKind::Latch => call.arg(target.channel()),
        HoldKind::Read | HoldKind::Write => call.arg(target.channel()).arg(&companions[3]),
        HoldKind::Semaphore => call.arg(owner.permits()).arg(target.channel()),
        HoldKind::Multi => {
            let channels = target.members().iter().map(|member| member.channel());
            call.arg(channels.collect::<Vec<_>>())
        }
    };
}
