//! Renewing many holds with one script.

use std::time::Duration;

use redis::Value;

use super::request::{end_of_hold, field, locks, millis};
use super::script::RENEW;
use super::{RedisStore, ownership, surprise};
use crate::error::StoreError;
use crate::store::{LockKind, Ownership, RenewRequest};

impl RedisStore {
    /// All over one connection, whichever took them: a renewal creates nothing that a release would
    /// have to come after.
    pub(super) async fn renew_all(
        &self,
        requests: &[RenewRequest],
        timeout: Duration,
    ) -> Result<Vec<Ownership>, StoreError> {
        let holds = || {
            requests.iter().flat_map(|request| {
                locks(&request.target).map(move |lock| (lock, &request.owner, request.lease))
            })
        };
        let mut call = RENEW.call(2 * holds().count());
        for (lock, owner, _) in holds() {
            call.arg(lock.key().as_str()).arg(end_of_hold(lock, owner));
        }
        for (lock, owner, lease) in holds() {
            let manner = match lock.kind() {
                LockKind::Read => "read",
                LockKind::Semaphore => "permit",
                _ => "hold",
            };
            call.arg(manner).arg(field(lock, owner)).arg(millis(lease)).arg(owner.permits());
        }
        match self.run(&RENEW, &call, timeout).await? {
            Value::Array(held) if held.len() == holds().count() => {
                let mut held = held.iter().map(ownership);
                let mut whole = |request: &RenewRequest| {
                    let parts: Result<Vec<_>, _> =
                        held.by_ref().take(locks(&request.target).count()).collect();
                    let whole = parts?.into_iter().all(|part| part == Ownership::Owner);
                    Ok(if whole { Ownership::Owner } else { Ownership::NotOwner })
                };
                requests.iter().map(&mut whole).collect()
            }
            other => Err(surprise(&other)),
        }
    }
}
