//! What each request looks like on the wire: its script, keys and arguments, by kind of lock.

pub(crate) mod answer;
pub(crate) mod combine;
mod end_later;
mod inspect;
mod renew;
pub(crate) mod replicated;

use std::time::Duration;

use redis::Cmd;

use crate::store::redis::link::Notices;
use crate::store::redis::scripts::{
    FAIR_ACQUIRE, FAIR_RELEASE, MULTI_ACQUIRE, MULTI_RELEASE, MUTEX_ACQUIRE, MUTEX_RELEASE,
    PERMIT_ACQUIRE, PERMIT_RELEASE, Part, READ_ACQUIRE, READ_RELEASE, Script, WRITE_ACQUIRE,
    WRITE_RELEASE,
};
use crate::store::{AcquireRequest, HoldKind, OwnerId, ReleaseRequest, Target};

/// A request that goes out alone or together with others.
#[derive(Debug)]
pub(crate) enum ScriptCall {
    Acquire(AcquireRequest),
    Release(ReleaseRequest),
}

impl ScriptCall {
    pub(crate) fn target(&self) -> &Target {
        match self {
            Self::Acquire(request) => &request.target,
            Self::Release(request) => &request.target,
        }
    }

    fn owner(&self) -> &OwnerId {
        match self {
            Self::Acquire(request) => &request.owner,
            Self::Release(request) => &request.owner,
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        match self {
            Self::Acquire(request) => request.timeout,
            Self::Release(request) => request.timeout,
        }
    }

    /// The script, if its number of keys is fixed, so that it can share a call with others.
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

    /// The request by itself, and the script that it calls.
    pub(crate) fn alone(&self, notices: &Notices) -> (&'static Script, Cmd) {
        let members = self.target().members().len();
        let (script, keys) = match (self.part(), self) {
            (Some(part), _) => (&part.script, part.keys()),
            (None, Self::Acquire(_)) => (&*MULTI_ACQUIRE, 2 * members),
            (None, Self::Release(_)) => (&*MULTI_RELEASE, members),
        };
        let mut call = script.call(notices, keys);
        self.write_keys(&mut call);
        self.write_args(&mut call);
        (script, call)
    }

    pub(crate) fn write_keys(&self, call: &mut Cmd) {
        let target = self.target();
        for lock in locks(target) {
            call.arg(lock.key().as_str());
        }
        if let Self::Acquire(_) = self {
            for lock in locks(target) {
                call.arg(lock.fence_counter());
            }
        }
        match target.kind() {
            HoldKind::Fair => call.arg(&target.companions()[..2]),
            HoldKind::Semaphore => call.arg(&target.companions()[..1]),
            // The waiting writers, the waiting readers, and those of them that are due.
            HoldKind::Read => {
                let waiting = if let Self::Acquire(_) = self { 0..3 } else { 1..3 };
                call.arg(&target.companions()[waiting]).arg(read_timeout(target, self.owner()))
            }
            HoldKind::Write => {
                let waiting = if let Self::Acquire(_) = self { 0..3 } else { 0..1 };
                call.arg(&target.companions()[waiting])
            }
            HoldKind::Mutex | HoldKind::Multi | HoldKind::Latch => call,
        };
    }

    pub(crate) fn write_args(&self, call: &mut Cmd) {
        let target = self.target();
        call.arg(self.owner().as_field());
        match self {
            Self::Acquire(request) => {
                // Of a long hold, the counter is there at least until it may end.
                let counter_expiry = target.token_ttl().max(request.lease);
                call.arg(millis(request.lease)).arg(request.tokens).arg(millis(counter_expiry));
                let place = request.place.map_or(0, millis);
                match target.kind() {
                    HoldKind::Fair => call.arg(place).arg(&target.companions()[2]),
                    HoldKind::Read => {
                        let writer = request.owner.writer().unwrap_or_default();
                        call.arg(u8::from(request.joins)).arg(writer).arg(place)
                    }
                    HoldKind::Write => call.arg(place).arg(&target.companions()[3]),
                    HoldKind::Semaphore => {
                        let permits = request.owner.permits();
                        call.arg(permits).arg(target.limit()).arg(target.channel())
                    }
                    HoldKind::Mutex | HoldKind::Multi | HoldKind::Latch => call,
                };
            }
            Self::Release(request) => {
                match target.kind() {
                    HoldKind::Mutex | HoldKind::Latch => call.arg(target.channel()),
                    HoldKind::Fair => call.arg(&target.companions()[2]),
                    HoldKind::Read | HoldKind::Write => {
                        call.arg(target.channel()).arg(&target.companions()[3])
                    }
                    HoldKind::Semaphore => call.arg(request.owner.permits()).arg(target.channel()),
                    HoldKind::Multi => {
                        target.members().iter().for_each(|member| {
                            call.arg(member.channel());
                        });
                        call
                    }
                };
            }
        }
    }
}

/// The locks that a target is made of: itself, or its members.
pub(crate) fn locks(target: &Target) -> impl Iterator<Item = &Target> {
    target.locks()
}

/// The key whose expiry is that of one hold of the read side.
// S-27.
fn read_timeout(target: &Target, owner: &OwnerId) -> String {
    let prefix = target.companions().last().map_or("", String::as_str);
    [prefix, ":", owner.as_field(), ":rwlock_timeout:1"].concat()
}

/// The key whose expiry is the end of a hold.
pub(crate) fn end_of_hold(lock: &Target, owner: &OwnerId) -> String {
    match (lock.kind(), lock.companions()) {
        (HoldKind::Read, _) => read_timeout(lock, owner),
        (HoldKind::Semaphore, [permits, ..]) => permits.clone(),
        _ => lock.key().as_str().to_owned(),
    }
}

/// The field of an owner in a lock's hash.
pub(crate) fn field(target: &Target, owner: &OwnerId) -> String {
    match target.kind() {
        HoldKind::Write => [owner.as_field(), ":write"].concat(),
        _ => owner.as_field().to_owned(),
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
