//! Renewing many holds with few scripts on each connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::answers::lost;
use super::calls;
use super::replicated::Replicated;
use crate::error::{StoreError, StoreErrorKind};
use crate::options::MAX_MULTI_NAMES;
use crate::store::redis::link::Link;
use crate::store::redis::scripts::{Answer, MAX_KEYS};
use crate::store::redis::server::errors::is_crossslot;
use crate::store::redis::server::slot::slot_of;
use crate::store::{OnRenewed, Ownership, RenewRequest, renewed_in_parts, tell_part};

/// A renewal without an answer after a tenth of the lease, within these bounds, has the connection checked. The
/// answer counts until the deadline, but a dead connection must be replaced sooner.
const LEAST_DOUBT: Duration = Duration::from_millis(20);
const MOST_DOUBT: Duration = Duration::from_secs(3);

/// The number of locks that one script renews at most: a server that takes as long as 10 µs for each lock can then answer
/// others after little more than a millisecond.
const MAX_LOCKS: usize = 128;
const _: () = assert!(MAX_MULTI_NAMES <= MAX_LOCKS && 2 * MAX_LOCKS <= MAX_KEYS);

/// Requests that may share a script: over one connection, by one script, with one lease.
#[derive(Debug, PartialEq)]
struct Manner {
    acknowledged: bool,
    is_plain: bool,
    /// Only plain holds have it in common.
    lease: Option<Duration>,
    /// Only in a cluster.
    slot: Option<u16>,
}

/// Requests that share a script.
struct Part<'r> {
    manner: Manner,
    /// The place of each request among all requests of the call.
    places: Vec<usize>,
    requests: Vec<&'r RenewRequest>,
    /// The work of the script: the number of locks, and of permits.
    locks: usize,
}

/// Renews each hold over the connection that acquired it, so that the same server answers.
// S-31.
pub(crate) async fn renew_all(
    link: &Arc<Link>,
    replicated: &Replicated,
    requests: &[RenewRequest],
    timeout: Duration,
    on_renewed: &OnRenewed,
) -> Result<(), StoreError> {
    let parts = parts(requests, link.is_cluster());
    if parts.iter().any(|part| !part.manner.acknowledged) {
        link.ensure_task();
    }
    let scripts = parts.into_iter().map(|part| async move {
        let link = if part.manner.acknowledged { replicated.link() } else { link };
        let answers = renew_part(link, &part.requests, timeout).await;
        tell_part(part.places, answers, on_renewed)
    });
    renewed_in_parts(join_all(scripts).await)
}

/// Splits requests into parts, each as large as one script may be.
fn parts(requests: &[RenewRequest], is_cluster: bool) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (place, request) in requests.iter().enumerate() {
        let manner = Manner::of(request, is_cluster);
        let locks = request.target.locks().count().max(request.owner.permits() as usize);
        let has_room =
            |part: &&mut Part<'_>| part.manner == manner && part.locks + locks <= MAX_LOCKS;
        if let Some(part) = parts.iter_mut().rev().find(has_room) {
            part.places.push(place);
            part.requests.push(request);
            part.locks += locks;
        } else {
            parts.push(Part { manner, places: vec![place], requests: vec![request], locks });
        }
    }
    parts
}

impl Manner {
    fn of(request: &RenewRequest, is_cluster: bool) -> Self {
        let is_plain = calls::is_plain(&request.target);
        let first = request.target.locks().next();
        Self {
            acknowledged: request.target.replicas().is_some(),
            is_plain,
            lease: is_plain.then_some(request.lease),
            slot: first.filter(|_| is_cluster).map(|lock| slot_of(lock.key().as_str())),
        }
    }
}

/// Renews with one script; if the server denies that, or they are in different slots, request by request. A user without
/// permission for one key keeps the others.
async fn renew_part(
    link: &Link,
    requests: &[&RenewRequest],
    timeout: Duration,
) -> Result<Vec<Ownership>, StoreError> {
    match renew_together(link, requests, timeout).await {
        Err(error)
            if requests.len() > 1
                && (error.kind() == StoreErrorKind::Denied || is_crossslot(&error)) => {}
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
    let start = Instant::now();
    let lease = requests.iter().map(|request| request.lease).min().unwrap_or_default();
    let call = if requests.iter().all(|request| calls::is_plain(&request.target)) {
        calls::renew_plain(link.publish(), requests, lease)
    } else {
        calls::renew(link.publish(), requests)
    };
    let mut answer = pin!(link.run(&call, start + timeout));
    // A question keeps no lease, and may wait.
    let doubt = if lease.is_zero() { MOST_DOUBT } else { lease / 10 };
    let doubt = start + doubt.clamp(LEAST_DOUBT, MOST_DOUBT);
    let answer = match timeout_at(doubt, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            link.suspect();
            answer.await
        }
    };
    owned(requests, &answer.map_err(|error| error.within(timeout))?)
}

/// Whether the owner of each request still holds all of its locks.
fn owned(requests: &[&RenewRequest], answer: &Answer) -> Result<Vec<Ownership>, StoreError> {
    let locks = |request: &RenewRequest| request.target.locks().count();
    let mut lost = lost(answer, requests.iter().map(|request| locks(request)).sum())?;
    lost.sort_unstable();
    let (mut lost, mut end) = (lost.into_iter().peekable(), 0);
    let mut whole = |request: &&RenewRequest| {
        end += locks(request);
        let mut is_whole = true;
        while lost.next_if(|place| *place < end).is_some() {
            is_whole = false;
        }
        if is_whole { Ownership::Owner } else { Ownership::NotOwner }
    };
    Ok(requests.iter().map(&mut whole).collect())
}
