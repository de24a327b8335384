//! A store that counts, and that checks what it is asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::{
    AcquireReply, AcquireRequest, OwnerId, Ownership, ReleaseReply, ReleaseRequest, RenewRequest,
    Store, StoreFuture, Subscription, Target, unsupported,
};

/// One lock. Its own mutex is no place to pause at: a request takes effect at once, some time after it was sent.
#[derive(Debug, Default)]
pub(super) struct CountingStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holder: Option<OwnerId>,
    last_token: u64,
    /// How many releases each owner was sent.
    releases: HashMap<OwnerId, usize>,
    grants: usize,
    /// How many answers to releases are lost from now on.
    lost_answers: usize,
}

impl CountingStore {
    pub(super) fn losing_answers(lost_answers: usize) -> Arc<Self> {
        let state = State { lost_answers, ..State::default() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_free(&self) -> bool {
        self.state().holder.is_none()
    }

    pub(super) fn grants(&self) -> usize {
        self.state().grants
    }

    /// How many releases were sent for each owner that was granted the lock.
    pub(super) fn releases(&self) -> Vec<usize> {
        self.state().releases.values().copied().collect()
    }
}

impl Store for CountingStore {
    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        StoreFuture::new(async move {
            shuttle::future::yield_now().await;
            let mut state = self.state();
            if state.holder.is_some() {
                return Ok(AcquireReply::Held(None));
            }
            state.holder = Some(request.owner);
            state.grants += 1;
            let token = state.last_token + 1;
            state.last_token += u64::from(request.tokens);
            Ok(AcquireReply::Granted(FencingToken::new(token)))
        })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        StoreFuture::new(async move {
            shuttle::future::yield_now().await;
            let mut state = self.state();
            *state.releases.entry(request.owner.clone()).or_default() += 1;
            let held = state.holder.take_if(|holder| *holder == request.owner).is_some();
            if state.lost_answers > 0 {
                state.lost_answers -= 1;
                return Err(StoreError::new(StoreErrorKind::OutcomeUnknown, "a lost answer"));
            }
            match held {
                true => Ok(ReleaseReply::Released { others: 0 }),
                false => Ok(ReleaseReply::NotOwner),
            }
        })
    }

    fn renew(&self, _: Vec<RenewRequest>, _: Duration) -> StoreFuture<'_, Vec<Ownership>> {
        unsupported("renewals")
    }

    fn subscribe(&self, _: &Arc<Target>, _: Duration) -> StoreFuture<'_, Subscription> {
        unsupported("subscriptions")
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }
}
