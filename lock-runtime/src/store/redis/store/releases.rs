//! Releases, and their repetition at the next master.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RedisStore;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::link::Link;
use crate::store::redis::requests::answers::number;
use crate::store::redis::requests::combine::Asked;
use crate::store::redis::requests::{HoldRequest, calls};
use crate::store::redis::scripts::Answer;
use crate::store::{HoldKind, ReleaseReply, ReleaseRequest, StoreFuture, Target, no_hold};

/// How many subscribers a release has notified; `None` if the owner did not hold the lock.
fn told(answer: Result<Answer, StoreError>) -> Result<Option<i64>, StoreError> {
    match answer {
        Ok(Answer::Number(-1)) => Ok(None),
        Ok(answer) => number(&answer).map(Some),
        // The key holds a user's data by now, which a release must not remove.
        Err(error) if error.kind() == StoreErrorKind::WrongType => Ok(None),
        Err(error) => Err(error),
    }
}

impl RedisStore {
    pub(super) fn release_once(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        let target = Arc::clone(&request.target);
        let own_notices = self.own_notices(&target);
        let mut asked = match request.keep {
            Duration::ZERO => self.hold(HoldRequest::Release(request)),
            _ => self.end_later(request),
        };
        StoreFuture::new(async move {
            // Borrowed, or the future would have room for it twice.
            let told = match told((&mut asked).await)? {
                Some(told) => told,
                None => return Ok(ReleaseReply::NotOwner),
            };
            let others = self.others(&target, told);
            if others > 0 {
                Box::pin(own_notices.received()).await;
            }
            Ok(ReleaseReply::Released { others })
        })
    }

    fn end_later(&self, request: ReleaseRequest) -> Asked {
        if request.target.kind() == HoldKind::Latch {
            return Asked::alone(ready(Err(no_hold())));
        }
        let link = Arc::clone(self.link_of(&request.target));
        link.ensure_task();
        let deadline = Instant::now() + request.timeout;
        Asked::alone(async move {
            let answer = link.run(&calls::end_later(link.publish(), &request), deadline).await;
            Ok(answer.map_err(|error| error.within(request.timeout))?)
        })
    }

    /// The link that acquired the hold: a release comes after the requests sent there.
    fn link_of(&self, target: &Target) -> &Arc<Link> {
        match target.replicas() {
            Some(_) => self.replicated.link(),
            None => &self.link,
        }
    }

    /// Remembers a release, in case the next master does not know of it.
    pub(super) fn remember(&self, request: ReleaseRequest) {
        let link = self.link_of(&request.target);
        let publish = link.publish();
        link.remember(Arc::new(move |since| {
            let keep = request.keep.saturating_sub(since);
            let again = request.clone().with_keep(keep);
            match keep {
                Duration::ZERO => HoldRequest::Release(again).call(publish),
                _ => calls::end_later(publish, &again),
            }
        }));
    }
}
