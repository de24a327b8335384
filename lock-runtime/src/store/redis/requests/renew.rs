//! Renewing many holds with few scripts on each connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::{Instant, timeout_at};

use super::answers::{ownership, surprise};
use super::calls;
use super::replicated::Replicated;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::link::Link;
use crate::store::redis::scripts::{Answer, MAX_KEYS};
use crate::store::{OnRenewed, Ownership, RenewRequest, renewed_in_parts, tell_part};

/// A renewal without an answer after a tenth of the lease, within these bounds, has the connection checked. The
/// answer counts until the deadline, but a dead connection must be replaced sooner.
const LEAST_DOUBT: Duration = Duration::from_millis(20);
const MOST_DOUBT: Duration = Duration::from_secs(3);

/// Requests, each with its place among all requests of the call.
type Placed<'a> = [(usize, &'a RenewRequest)];

/// Renews each hold over the connection that acquired it, so that the same server answers.
// S-31.
pub(crate) async fn renew_all(
    link: &Arc<Link>,
    replicated: &Replicated,
    requests: &[RenewRequest],
    timeout: Duration,
    on_renewed: &OnRenewed,
) -> Result<(), StoreError> {
    let (acknowledged, plain): (Vec<_>, Vec<_>) =
        requests.iter().enumerate().partition(|(_, request)| request.target.replicas().is_some());
    if !plain.is_empty() {
        link.ensure_task();
    }
    let plain = by_keys(&plain).into_iter().map(|part| (link, part));
    let acknowledged = by_keys(&acknowledged).into_iter().map(|part| (replicated.link(), part));
    let scripts = plain.chain(acknowledged).map(|(link, part)| async move {
        let requests: Vec<_> = part.iter().map(|(_, request)| *request).collect();
        let answers = renew_part(link, &requests, timeout).await;
        tell_part(part.iter().map(|(place, _)| *place), answers, on_renewed)
    });
    renewed_in_parts(join_all(scripts).await)
}

/// Splits requests into parts, in order, each as large as one script may be.
fn by_keys<'a, 'r>(requests: &'a Placed<'r>) -> Vec<&'a Placed<'r>> {
    let (mut parts, mut start, mut keys) = (Vec::new(), 0, 0);
    for (at, (_, request)) in requests.iter().enumerate() {
        let more = 2 * request.target.locks().count();
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

/// Renews with one script; if the server denies that, request by request. A user without permission for one key
/// keeps the others.
async fn renew_part(
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
    let (call, start) = (calls::renew(link.publish(), requests), Instant::now());
    let mut answer = pin!(link.run(&call, start + timeout));
    let lease = requests.iter().map(|request| request.lease).min().unwrap_or_default();
    let doubt = start + (lease / 10).clamp(LEAST_DOUBT, MOST_DOUBT);
    let answer = match timeout_at(doubt, &mut answer).await {
        Ok(answer) => answer?,
        Err(_) => {
            link.suspect();
            answer.await?
        }
    };
    let locks = |request: &&RenewRequest| request.target.locks().count();
    match &answer {
        Answer::Other(Value::Array(held))
            if held.len() == requests.iter().map(locks).sum::<usize>() =>
        {
            let mut held = held.iter().map(ownership);
            let mut whole = |request: &&RenewRequest| {
                let parts: Result<Vec<_>, _> = held.by_ref().take(locks(request)).collect();
                let whole = parts?.into_iter().all(|part| part == Ownership::Owner);
                Ok(if whole { Ownership::Owner } else { Ownership::NotOwner })
            };
            requests.iter().map(&mut whole).collect()
        }
        other => Err(surprise(other)),
    }
}
