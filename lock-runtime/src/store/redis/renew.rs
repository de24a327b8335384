//! Renewing many holds with one script on each connection.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::Instant;

use super::link::Link;
use super::request::{end_of_hold, field, locks, millis};
use super::script::RENEW;
use super::{RedisStore, ownership, surprise};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{LockKind, Ownership, RenewRequest};

impl RedisStore {
    /// Each hold over the connection that took it, so that the same server answers for it (S-31).
    pub(super) async fn renew_all(
        &self,
        requests: &[RenewRequest],
        timeout: Duration,
    ) -> Result<Vec<Ownership>, StoreError> {
        let has_replicas = |request: &&RenewRequest| request.target.replicas().is_some();
        let (replicated, plain): (Vec<_>, Vec<_>) = requests.iter().partition(has_replicas);
        if replicated.is_empty() {
            self.link.ensure_task();
            return renew_over(&self.link, &plain, timeout).await;
        }
        if plain.is_empty() {
            return renew_over(self.replicated.link(), &replicated, timeout).await;
        }
        self.link.ensure_task();
        let (replicated, plain) = tokio::join!(
            renew_over(self.replicated.link(), &replicated, timeout),
            renew_over(&self.link, &plain, timeout)
        );
        if let (Err(error), Err(_)) = (&replicated, &plain) {
            return Err(error.clone());
        }
        // One connection that fails says nothing of the holds of the other.
        let known = |part: Result<Vec<_>, StoreError>| {
            let known = part.inspect_err(|error| tracing::warn!(%error, "renewal failed"));
            known.unwrap_or_default().into_iter()
        };
        let (mut replicated, mut plain) = (known(replicated), known(plain));
        let answer = |request: &RenewRequest| {
            let part = if has_replicas(&request) { &mut replicated } else { &mut plain };
            part.next().unwrap_or(Ownership::Unknown)
        };
        Ok(requests.iter().map(answer).collect())
    }
}

/// A user who lost the right to one key keeps the others: what is refused together is asked for
/// one by one.
async fn renew_over(
    link: &Link,
    requests: &[&RenewRequest],
    timeout: Duration,
) -> Result<Vec<Ownership>, StoreError> {
    match renew_together(link, requests, timeout).await {
        Err(error) if error.kind() == StoreErrorKind::Denied && requests.len() > 1 => {}
        answer => return answer,
    }
    let one = async |request: &&RenewRequest| match renew_together(link, &[*request], timeout).await
    {
        Ok(answer) => answer.first().copied().unwrap_or(Ownership::Unknown),
        Err(error) => {
            tracing::warn!(lock.key = ?request.target.key(), %error, "renewal failed");
            Ownership::Unknown
        }
    };
    Ok(join_all(requests.iter().map(one)).await)
}

async fn renew_together(
    link: &Link,
    requests: &[&RenewRequest],
    timeout: Duration,
) -> Result<Vec<Ownership>, StoreError> {
    let holds = || {
        requests.iter().flat_map(|request| {
            locks(&request.target).map(move |lock| (lock, &request.owner, request.lease))
        })
    };
    let mut call = RENEW.call(link.notices(), 2 * holds().count());
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
    match RENEW.run(link, &call, Instant::now() + timeout).await? {
        Value::Array(held) if held.len() == holds().count() => {
            let mut held = held.iter().map(ownership);
            let mut whole = |request: &&RenewRequest| {
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
