//! Renewing many holds with few scripts on each connection.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::Instant;

use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::RedisStore;
use crate::store::redis::link::Link;
use crate::store::redis::requests::answer::{ownership, surprise};
use crate::store::redis::requests::{end_of_hold, field, locks, millis};
use crate::store::redis::scripts::{MAX_KEYS, RENEW};
use crate::store::{HoldKind, OnRenewed, Ownership, RenewRequest, renewed_in_parts, tell_part};

/// After how much of the lease a renewal without an answer has the connection looked at, within
/// these bounds. The answer still counts until the deadline; a dead connection must be replaced sooner.
const DOUBT: u32 = 10;
const LEAST_DOUBT: Duration = Duration::from_millis(20);
const MOST_DOUBT: Duration = Duration::from_secs(3);

/// Requests, and where each belongs among all that came together.
type Numbered<'a> = Vec<(usize, &'a RenewRequest)>;

impl RedisStore {
    /// Each hold over the connection that took it, so that the same server answers for it.
    // S-31.
    pub(crate) async fn renew_all(
        &self,
        requests: &[RenewRequest],
        timeout: Duration,
        on_renewed: &OnRenewed,
    ) -> Result<(), StoreError> {
        let has_replicas =
            |(_, request): &(usize, &RenewRequest)| request.target.replicas().is_some();
        let (replicated, plain): (Numbered<'_>, Numbered<'_>) =
            requests.iter().enumerate().partition(has_replicas);
        if !plain.is_empty() {
            self.link.ensure_task();
        }
        let plain = by_keys(&plain).into_iter().map(|part| (&self.link, part));
        let replicated =
            by_keys(&replicated).into_iter().map(|part| (self.replicated.link(), part));
        let scripts =
            plain.chain(replicated).map(|(link, part)| renew_part(link, part, timeout, on_renewed));
        renewed_in_parts(join_all(scripts).await)
    }
}

/// In parts, in order, each of as many requests as one script has room for.
fn by_keys<'a, 'r>(
    requests: &'a [(usize, &'r RenewRequest)],
) -> Vec<&'a [(usize, &'r RenewRequest)]> {
    let (mut parts, mut start, mut keys) = (Vec::new(), 0, 0);
    for (at, (_, request)) in requests.iter().enumerate() {
        let more = 2 * locks(&request.target).count();
        if keys + more > MAX_KEYS && at > start {
            parts.push(&requests[start..at]);
            (start, keys) = (at, 0);
        }
        keys += more;
    }
    if start < requests.len() {
        parts.push(&requests[start..]);
    }
    parts
}

/// Renews with one script, and tells the answers as soon as it has given them.
async fn renew_part(
    link: &Link,
    part: &[(usize, &RenewRequest)],
    timeout: Duration,
    on_renewed: &OnRenewed,
) -> Result<(), StoreError> {
    let requests: Vec<_> = part.iter().map(|(_, request)| *request).collect();
    let answers = renew_over(link, &requests, timeout).await;
    tell_part(part.iter().map(|(place, _)| *place), answers, on_renewed)
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
            tracing::warn!(lock.name = ?request.target.key(), %error, "renewal failed");
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
            HoldKind::Read => "read",
            HoldKind::Semaphore => "permit",
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
