//! The calls of all scripts except those that acquire and release.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::store::redis::scripts::{
    END_LATER, FORCE_RELEASE, INSPECT, LATCH, Publish, RAISE_TOKEN, RENEW, RENEW_PLAIN, ScriptCall,
};
use crate::store::{HoldKind, LatchRequest, OwnerId, ReleaseRequest, RenewRequest, Target};

/// True if [`renew_plain`] renews the hold: its end is the expiry of a hash.
pub(super) fn is_plain(target: &Target) -> bool {
    target.locks().all(|lock| !matches!(lock.kind(), HoldKind::Read | HoldKind::Semaphore))
}

/// Renews several [plain](is_plain) holds with one lease, each in one or several locks.
pub(super) fn renew_plain(
    publish: Publish,
    requests: &[&RenewRequest],
    lease: Duration,
) -> ScriptCall {
    let locks = || {
        requests
            .iter()
            .flat_map(|request| request.target.locks().map(move |lock| (lock, &request.owner)))
    };
    RENEW_PLAIN.call(publish, locks().count(), |call| {
        for (lock, _) in locks() {
            call.arg(lock.key().as_str());
        }
        call.arg(millis(lease));
        for (lock, owner) in locks() {
            call.arg(&*field(lock, owner));
        }
    })
}

/// Renews several holds of any kind, each in one or several locks.
pub(super) fn renew(publish: Publish, requests: &[&RenewRequest]) -> ScriptCall {
    let holds = || {
        requests.iter().flat_map(|request| {
            request.target.locks().map(move |lock| (lock, &request.owner, request.lease))
        })
    };
    RENEW.call(publish, 2 * holds().count(), |call| {
        for (lock, owner, _) in holds() {
            call.arg(lock.key().as_str()).arg(end_of_hold(lock, owner));
        }
        for (lock, owner, lease) in holds() {
            let manner = match lock.kind() {
                HoldKind::Read => "read",
                HoldKind::Semaphore => "permit",
                _ => "hold",
            };
            call.arg(manner).arg(&*field(lock, owner)).arg(millis(lease)).arg(owner.permits());
        }
    })
}

/// Lets a hold end by itself after `request.keep`, of any kind and in several locks.
pub(crate) fn end_later(publish: Publish, request: &ReleaseRequest) -> ScriptCall {
    let (target, owner) = (&request.target, &request.owner);
    END_LATER.call(publish, 2 * target.locks().count(), |call| {
        for lock in target.locks() {
            let beside = match (lock.kind(), lock.companions()) {
                (HoldKind::Fair, [queue, ..]) => queue.clone(),
                _ => end_of_hold(lock, owner),
            };
            call.arg(lock.key().as_str()).arg(beside);
        }
        // Rounded up, so that it does not end early.
        call.arg(millis(request.keep.saturating_add(Duration::from_nanos(999_999))));
        for lock in target.locks() {
            let (manner, prefix) = match (lock.kind(), lock.companions()) {
                (HoldKind::Fair, [.., channels]) => ("fair", channels.as_str()),
                (HoldKind::Read, [.., readers]) => ("read", readers.as_str()),
                (HoldKind::Write, [.., readers]) => ("write", readers.as_str()),
                (HoldKind::Semaphore, _) => ("permit", ""),
                _ => ("hold", ""),
            };
            call.arg(manner).arg(&*field(lock, owner)).arg(owner.permits());
            call.arg(lock.channel()).arg(prefix);
        }
    })
}

pub(crate) fn latch(publish: Publish, target: &Target, request: LatchRequest) -> ScriptCall {
    LATCH.call(publish, 3, |call| {
        call.arg(target.key().as_str()).arg(target.fence_counter()).arg(target.companions());
        call.arg(target.channel());
        match request {
            LatchRequest::SetCount(count) => call.arg("set").arg(count),
            LatchRequest::CountDown => call.arg("down").arg(""),
            LatchRequest::Count => call.arg("count").arg(""),
            LatchRequest::Remove => call.arg("remove").arg(""),
        };
    })
}

pub(crate) fn raise_token(publish: Publish, target: &Target, token: FencingToken) -> ScriptCall {
    RAISE_TOKEN.call(publish, 1, |call| {
        call.arg(target.fence_counter()).arg(token.get()).arg(millis(target.token_ttl()));
    })
}

pub(crate) fn inspect(publish: Publish, key: &LockKey) -> ScriptCall {
    let (fair, write) = (Target::fair(key.clone()), Target::write(key.clone()));
    let semaphore = Target::semaphore(key.clone(), NonZeroU32::MIN);
    INSPECT.call(publish, 6, |call| {
        call.arg(key.as_str()).arg(fair.fence_counter()).arg(&fair.companions()[1]);
        call.arg(&write.companions()[0]).arg(semaphore.companions()).arg(&fair.companions()[0]);
        call.arg(&write.companions()[3]);
    })
}

pub(crate) fn force_release(publish: Publish, key: &LockKey, clients: &[String]) -> ScriptCall {
    let (fair, write) = (Target::fair(key.clone()), Target::write(key.clone()));
    let semaphore = Target::semaphore(key.clone(), NonZeroU32::MIN);
    FORCE_RELEASE.call(publish, 4, |call| {
        call.arg(key.as_str()).arg(&fair.companions()[..2]).arg(semaphore.companions());
        call.arg(fair.channel()).arg(write.channel()).arg(semaphore.channel());
        call.arg(&write.companions()[3]).arg(clients);
    })
}

/// The key whose expiry is the end of one read hold.
// S-27.
pub(super) fn read_timeout(target: &Target, owner: &OwnerId) -> String {
    let prefix = target.companions().last().map_or("", String::as_str);
    [prefix, ":", owner.as_field(), ":rwlock_timeout:1"].concat()
}

/// The key that has the end of a hold, as its expiry or, of permits, as a score.
fn end_of_hold(lock: &Target, owner: &OwnerId) -> String {
    match (lock.kind(), lock.companions()) {
        (HoldKind::Read, _) => read_timeout(lock, owner),
        (HoldKind::Semaphore, [permits, ..]) => permits.clone(),
        _ => lock.key().as_str().to_owned(),
    }
}

/// The field of an owner in a lock's hash.
pub(super) fn field<'a>(target: &Target, owner: &'a OwnerId) -> Cow<'a, str> {
    match target.kind() {
        HoldKind::Write => Cow::Owned([owner.as_field(), ":write"].concat()),
        _ => Cow::Borrowed(owner.as_field()),
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
