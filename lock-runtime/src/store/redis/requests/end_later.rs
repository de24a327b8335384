//! Leaving a hold to end by itself, of whatever kind and of several locks at once.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::error::StoreError;
use crate::store::redis::RedisStore;
use crate::store::redis::requests::{end_of_hold, field, locks, millis};
use crate::store::redis::scripts::END_LATER;
use crate::store::{HoldKind, OwnerId, ReleaseRequest, Target, no_hold};

impl RedisStore {
    /// Over the connection that took it, so behind whatever was asked for it there.
    pub(crate) async fn end_later(&self, request: &ReleaseRequest) -> Result<Value, StoreError> {
        let ReleaseRequest { target, owner, keep, timeout } = request;
        if target.kind() == HoldKind::Latch {
            return Err(no_hold());
        }
        let mut call = END_LATER.call(self.link.notices(), 2 * locks(target).count());
        for lock in locks(target) {
            call.arg(lock.key().as_str()).arg(beside(lock, owner));
        }
        // Rounded up: not before.
        call.arg(millis(keep.saturating_add(Duration::from_nanos(999_999))));
        for lock in locks(target) {
            let (manner, prefix) = match (lock.kind(), lock.companions()) {
                (HoldKind::Fair, [.., channels]) => ("fair", channels.as_str()),
                (HoldKind::Read, [.., readers]) => ("read", readers.as_str()),
                (HoldKind::Write, [.., readers]) => ("write", readers.as_str()),
                (HoldKind::Semaphore, _) => ("permit", ""),
                _ => ("hold", ""),
            };
            call.arg(manner).arg(field(lock, owner)).arg(owner.permits());
            call.arg(lock.channel()).arg(prefix);
        }
        let link = match target.replicas() {
            Some(_) => self.replicated.link(),
            None => {
                self.link.ensure_task();
                &self.link
            }
        };
        Ok(END_LATER.run(link, call, Instant::now() + *timeout).await?)
    }
}

/// The key that is looked at beside that of the lock itself.
fn beside(lock: &Target, owner: &OwnerId) -> String {
    match (lock.kind(), lock.companions()) {
        (HoldKind::Fair, [queue, ..]) => queue.clone(),
        _ => end_of_hold(lock, owner),
    }
}
