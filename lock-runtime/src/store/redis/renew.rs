//! Renewing many holds with one script on each connection.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::Instant;

use super::link::Link;
use super::request::{end_of_hold, field, locks, millis};
use super::script::RENEW;
use super::{RedisStore, ownership, surprise};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{LockKind, OnRenewed, Ownership, RenewRequest};

/// After how much of the lease a renewal without an answer has the connection looked at, within
/// these bounds. The answer still counts until the deadline; a dead connection must be replaced sooner.
const DOUBT: u32 = 10;
const LEAST_DOUBT: Duration = Duration::from_millis(20);
const MOST_DOUBT: Duration = Duration::from_secs(3);

/// Requests, and where each belongs among all that came together.
type Numbered<'a> = Vec<(usize, &'a RenewRequest)>;

impl RedisStore {
    /// Each hold over the connection that took it, so that the same server answers for it (S-31).
    pub(super) async fn renew_all(
        &self,
        requests: &[RenewRequest],
        timeout: Duration,
        on_renewed: &OnRenewed,
    ) -> Result<(), StoreError> {
        let has_replicas =
            |(_, request): &(usize, &RenewRequest)| request.target.replicas().is_some();
        let (replicated, plain): (Numbered<'_>, Numbered<'_>) =
            requests.iter().enumerate().partition(has_replicas);
        if replicated.is_empty() {
            self.link.ensure_task();
            return renew_part(&self.link, &plain, timeout, on_renewed).await;
        }
        if plain.is_empty() {
            return renew_part(self.replicated.link(), &replicated, timeout, on_renewed).await;
        }
        self.link.ensure_task();
        let (replicated, plain) = tokio::join!(
            renew_part(self.replicated.link(), &replicated, timeout, on_renewed),
            renew_part(&self.link, &plain, timeout, on_renewed)
        );
        match (replicated, plain) {
            (Err(error), Err(_)) => Err(error),
            (Err(error), Ok(())) | (Ok(()), Err(error)) => {
                // One connection that fails says nothing of the holds of the other.
                tracing::warn!(%error, "renewal failed");
                Ok(())
            }
            (Ok(()), Ok(())) => Ok(()),
        }
    }
}

/// Renews over one connection, and tells the answers as soon as that has given them.
async fn renew_part(
    link: &Link,
    part: &[(usize, &RenewRequest)],
    timeout: Duration,
    on_renewed: &OnRenewed,
) -> Result<(), StoreError> {
    let requests: Vec<_> = part.iter().map(|(_, request)| *request).collect();
    let answers = renew_over(link, &requests, timeout).await;
    for (at, (place, _)) in part.iter().enumerate() {
        let known = answers.as_ref().ok().and_then(|answers| answers.get(at).copied());
        on_renewed(*place, known.unwrap_or(Ownership::Unknown));
    }
    answers.map(drop)
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
    let answer = RENEW.run(link, call, Instant::now() + timeout);
    match doubting(link, requests, answer).await? {
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

/// Waits for the answer, and has the link look at its connection if it does not come soon.
async fn doubting<T>(
    link: &Link,
    requests: &[&RenewRequest],
    answer: impl Future<Output = T>,
) -> T {
    let lease = requests.iter().map(|request| request.lease).min().unwrap_or_default();
    let soon = (lease / DOUBT).clamp(LEAST_DOUBT, MOST_DOUBT);
    let mut answer = pin!(answer);
    match tokio::time::timeout(soon, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            link.suspect();
            answer.await
        }
    }
}
