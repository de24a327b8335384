//! A request on its way to the node that has its slot.
//!
//! Repeated is only what a node says it has not run: it does not have the slot, or not all keys of it,
//! or serves nobody now. Whatever may have run goes back to whoever asked, who knows how to find out.
//! And what may be repeated is, if another node has got the slot before the answer came.
// S-21.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use tokio::time::{Instant, sleep};

use super::slots::NodeAddress;
use super::topology::{Node, SLACK, Topology};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::StoreFuture;
use crate::store::redis::RedisStore;
use crate::store::redis::link::asking;
use crate::store::redis::server::errors::{Cause, cause};

/// First and longest pause before a request is sent once more.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// What is to be done with a request while its slot is on its way to another node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moving {
    /// Follow what it is about. If some keys are here and some there, wait for the others.
    Follow,
    /// The same, but then say so: whoever asks can ask for less at once.
    FollowOrSay,
    /// Wait until all are there. Its script looks at keys that it does not name: those that have not
    /// come yet look there as if they had ended, and a reader's end lets a writer in.
    Wait,
}

/// Why a node did not run a request.
pub(super) enum NotRun {
    /// It has the slot no more.
    Moved(u16, NodeAddress),
    /// The slot is on its way to that node, and so is what the request is about.
    Ask(NodeAddress),
    /// It may later.
    NotNow,
}

impl NotRun {
    /// What an error reply of `asked` says, if it says that nothing has run and that asking again helps.
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

/// Who gave an answer.
enum AnsweredBy {
    /// The node that has the slot, and how long it took.
    Owner(Arc<Node>, Duration),
    /// A node that had the slot when it was asked.
    Replaced,
    /// The node that is about to get the slot.
    Importer,
}

/// Longer with each time that a request comes back.
pub(super) struct Pause(Duration);

impl Pause {
    pub(super) fn new() -> Self {
        Self(Duration::ZERO)
    }

    /// Sleeps; not the first time, since a first redirection knows where to go. False if that would
    /// take until the deadline.
    pub(super) async fn before(&mut self, deadline: Instant) -> bool {
        let pause = self.0.mul_f64(0.5 + fastrand::f64());
        self.0 = (self.0 * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
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
    /// Makes a call that may be repeated, as [`route`](Self::route) does, until whoever answers has the
    /// slot when the answer comes. A master that hangs, is replaced and goes on would grant what was sent to
    /// it before: it does not know yet. Nor may anybody here; so an answer that comes late is asked for
    /// again, until one is not late, or as late as the one before: the node is slow then, not stopped. Before
    /// a node that was stopped reads that, it has looked at its own state and refuses.
    pub(super) async fn settle<T>(
        &self,
        slot: u16,
        timeout: Duration,
        moving: Moving,
        call: impl for<'n> Fn(&'n RedisStore, Duration) -> StoreFuture<'n, T> + Send + Sync,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + timeout;
        let mut earlier = None;
        loop {
            let (answer, by) = self.routed(slot, deadline, moving, &call).await?;
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

    /// Makes a call, which gets the time that is left, at the node that has the slot.
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

    /// The answer, and whose it is.
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
            if moving == Moving::FollowOrSay && is_divided(&error) {
                return Err(error);
            }
            match reply(&error).and_then(|reply| NotRun::of(reply, &node.address)) {
                Some(NotRun::Moved(slot, to)) => self.moved(slot, &to)?,
                Some(NotRun::Ask(_)) if moving == Moving::Wait => self.look.notify_one(),
                Some(NotRun::Ask(to)) => importing = Some(self.asked(&to)?),
                Some(NotRun::NotNow) => self.look.notify_one(),
                // The connection went before anything was sent over it.
                None if error.kind() == StoreErrorKind::Unavailable => self.look.notify_one(),
                None => {
                    if error.kind() == StoreErrorKind::OutcomeUnknown {
                        self.look.notify_one();
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

/// True if a late answer took about as long as the late one before it, or less.
fn is_as_slow(took: Duration, earlier: Duration) -> bool {
    took <= 2 * earlier + SLACK
}

/// What the server said, if an error is that.
fn reply(error: &StoreError) -> Option<&RedisError> {
    cause(error)
}

/// True if some keys of the request were there and some were not, so that nothing ran.
pub(super) fn is_divided(error: &StoreError) -> bool {
    reply(error).is_some_and(|reply| reply.code() == Some("TRYAGAIN"))
}

/// A redirection that there was no time to follow.
fn out_of_time(error: StoreError) -> StoreError {
    if error.kind() != StoreErrorKind::Config {
        return error;
    }
    let message = "the lock is being moved to another node of the cluster";
    let moving = StoreError::new(StoreErrorKind::NotReady, message);
    // The words of one server for it, which would advise to connect to a cluster, are left out.
    match reply(&error) {
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
