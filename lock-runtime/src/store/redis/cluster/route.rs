//! Sends a request to the node that has its slot.
//!
//! A request is repeated only if the node says that it did not run it: the node does not have the slot, or not all of
//! its keys, or cannot serve now. If the request may have run, the caller gets the error and finds out. A request that
//! is safe to repeat is also repeated if another node has taken over the slot before the answer came.
// S-21.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use tokio::time::{Instant, sleep};

use super::slots::NodeAddress;
use super::topology::{Node, SLACK, Topology};
use crate::backoff::Backoff;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::StoreFuture;
use crate::store::redis::link::asking;
use crate::store::redis::server::errors::{Cause, cause};
use crate::store::redis::store::RedisStore;
use crate::store::unsent::SentBefore;

/// The first and the longest pause before a request is repeated.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// How to treat a request while its slot moves to another node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moving {
    /// Follow its keys. If only some of them have moved, wait for the others.
    Follow,
    /// The same, but return the error if only some keys have moved: the caller can ask for fewer keys.
    FollowOrFail,
    /// Wait until all keys have moved. The script reads keys that it does not name. Those that have not moved yet would
    /// look as if they had ended, and the end of a reader admits a writer.
    Wait,
}

/// Why a node did not run a request.
pub(super) enum NotRun {
    /// Another node has the slot.
    Moved(u16, NodeAddress),
    /// The slot moves to that node, which has the request's keys already.
    Ask(NodeAddress),
    /// It may run it later.
    NotNow,
}

impl NotRun {
    /// Reads an error reply of `asked`; `None` unless nothing ran and repeating the request helps.
    pub(super) fn of(error: &RedisError, asked: &NodeAddress) -> Option<Self> {
        let to = || {
            let (to, slot) = error.redirect_node()?;
            Some((NodeAddress::parse(to, asked)?, slot))
        };
        match error.code()? {
            "MOVED" => to().map(|(to, slot)| Self::Moved(slot, to)),
            "ASK" => to().map(|(to, _)| Self::Ask(to)),
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => {
                Some(Self::NotNow)
            }
            _ => None,
        }
    }
}

/// The node that gave an answer.
enum AnsweredBy {
    /// The node that has the slot, and how long its answer took.
    Owner(Arc<Node>, Duration),
    /// A node that had the slot when it was asked, but has it no more.
    Replaced,
    /// The node that imports the slot.
    Importer,
}

/// Pauses between attempts. The second attempt follows at once, since a redirection says where to go.
pub(super) struct Pause(Option<Backoff>);

impl Pause {
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Pauses; false if that would take until the deadline.
    pub(super) async fn before(&mut self, deadline: Instant) -> bool {
        let pause = self.0.as_mut().map_or(Duration::ZERO, Backoff::pause);
        self.0.get_or_insert_with(|| Backoff::between(FIRST_PAUSE, LONGEST_PAUSE));
        if Instant::now() + pause >= deadline {
            return false;
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
        true
    }
}

impl Topology {
    /// Like [`route`](Self::route), for a call that is safe to repeat. Repeats it until the node that answers still has
    /// the slot when the answer comes.
    ///
    /// A master that hangs and is replaced would grant earlier requests when it goes on, before it learns that it was
    /// replaced. This process may not know it either. So the call is repeated after a late answer, until an answer is
    /// not late, or about as late as the one before: then the node is slow and was not stopped. A node that was stopped
    /// checks its own state before it reads the repeated request, and refuses it.
    pub(super) async fn settle<T>(
        &self,
        slot: u16,
        timeout: Duration,
        moving: Moving,
        call: impl for<'n> Fn(&'n RedisStore, Duration) -> StoreFuture<'n, T> + Send + Sync,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + timeout;
        let mut earlier = None;
        // Declared before the request under way, so that it is dropped after that.
        let mut sent_before = None;
        loop {
            let routed = self.routed(slot, deadline, moving, &call).await;
            // An earlier request was answered, so what this one says of itself, such as that it did not run, is not all.
            let (answer, by) = routed.map_err(|error| {
                match sent_before.is_some() && error.kind().is_transient() {
                    true => error.of_kind(StoreErrorKind::OutcomeUnknown),
                    false => error,
                }
            })?;
            sent_before.get_or_insert(SentBefore);
            match by {
                AnsweredBy::Importer => return Ok(answer),
                AnsweredBy::Replaced => earlier = None,
                AnsweredBy::Owner(node, took) => {
                    let same = earlier.take().filter(|(late, _)| Arc::ptr_eq(late, &node));
                    if !node.is_late(took) || same.is_some_and(|(_, late)| is_as_slow(took, late)) {
                        node.note(took);
                        return Ok(answer);
                    }
                    earlier = Some((node, took));
                }
            }
        }
    }

    /// Makes a call at the node that has the slot; `call` gets the time that is left.
    pub(super) async fn route<T>(
        &self,
        slot: u16,
        timeout: Duration,
        moving: Moving,
        call: impl for<'n> Fn(&'n RedisStore, Duration) -> StoreFuture<'n, T> + Send + Sync,
    ) -> Result<T, StoreError> {
        let (answer, _) = self.routed(slot, Instant::now() + timeout, moving, &call).await?;
        Ok(answer)
    }

    /// Returns the answer and the node that gave it.
    async fn routed<T>(
        &self,
        slot: u16,
        deadline: Instant,
        moving: Moving,
        call: &(impl for<'n> Fn(&'n RedisStore, Duration) -> StoreFuture<'n, T> + Send + Sync),
    ) -> Result<(T, AnsweredBy), StoreError> {
        let mut pause = Pause::new();
        let mut importing = None;
        loop {
            let redirected = importing.take();
            let node = match &redirected {
                Some(node) => Arc::clone(node),
                None => self.ready(slot, deadline).await?,
            };
            let asked = Instant::now();
            let left = deadline.saturating_duration_since(asked);
            let answer = match &redirected {
                Some(_) => asking(call(&node.store, left)).await,
                None => call(&node.store, left).await,
            };
            let error = match answer {
                Err(error) => error,
                Ok(answer) if redirected.is_some() => return Ok((answer, AnsweredBy::Importer)),
                Ok(answer) => {
                    let is_other = |owner: Arc<Node>| !Arc::ptr_eq(&owner, &node);
                    let by = match self.owner(slot).is_some_and(is_other) {
                        true => AnsweredBy::Replaced,
                        false => AnsweredBy::Owner(node, asked.elapsed()),
                    };
                    return Ok((answer, by));
                }
            };
            if moving == Moving::FollowOrFail && is_divided(&error) {
                return Err(error);
            }
            match cause(&error).and_then(|reply| NotRun::of(reply, &node.address)) {
                Some(NotRun::Moved(slot, to)) => self.moved(slot, &to)?,
                Some(NotRun::Ask(_)) if moving == Moving::Wait => self.refresh_now.notify_one(),
                Some(NotRun::Ask(to)) => importing = Some(self.importer(&to)?),
                Some(NotRun::NotNow) => self.refresh_now.notify_one(),
                // The connection broke before the request was sent.
                None if error.kind() == StoreErrorKind::Unavailable => {
                    self.refresh_now.notify_one()
                }
                None => {
                    if error.kind() == StoreErrorKind::OutcomeUnknown {
                        self.refresh_now.notify_one();
                    }
                    return Err(error);
                }
            }
            if !pause.before(deadline).await {
                return Err(out_of_time(error));
            }
        }
    }
}

/// True if a late answer took at most about as long as the late answer before it.
fn is_as_slow(took: Duration, earlier: Duration) -> bool {
    took <= 2 * earlier + SLACK
}

/// True if the node had only some of the request's keys, so that nothing ran.
pub(super) fn is_divided(error: &StoreError) -> bool {
    cause(error).is_some_and(|reply| reply.code() == Some("TRYAGAIN"))
}

/// The error of a redirection that there was no time to follow.
fn out_of_time(error: StoreError) -> StoreError {
    if error.kind() != StoreErrorKind::Config {
        return error;
    }
    let message = "the lock is being moved to another node of the cluster";
    let moving = StoreError::new(StoreErrorKind::NotReady, message);
    // Without the message for a single server, which advises to connect to a cluster.
    match cause(&error) {
        Some(reply) => moving.with_source(Cause(reply.clone())),
        None => moving.with_source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That a node is slow throughout explains a second late answer; that it was stopped does not.
    #[test]
    fn a_second_answer_is_believed_if_it_is_as_slow() {
        for (took, earlier, believed) in [
            (150, 120, true),
            (2, 4_000, true),
            (280, 130, true),
            (300, 130, false),
            (4_000, 25, false),
        ] {
            let [took, earlier] = [took, earlier].map(Duration::from_millis);
            assert_eq!(is_as_slow(took, earlier), believed, "{took:?} after {earlier:?}");
        }
    }
}
