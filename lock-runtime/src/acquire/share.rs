//! Readers of one process share one hold of the read side (S-27).
//!
//! Joining a hold that was taken or asked about a moment ago costs nothing. After that, one of those
//! who want to join asks the store whether a writer waits, for all of them: otherwise a stream of
//! local readers would keep the hold for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::{Contention, re_enter, until};
use crate::clock::Tick;
use crate::error::{LockError, StoreError};
use crate::guard::LockGuard;
use crate::options::Replicas;
use crate::stand::Stand;
use crate::store::{AcquireReply, AcquireRequest, Target};

/// The read holds that others may join.
#[derive(Default)]
pub(crate) struct Readers {
    by_target: Mutex<HashMap<Arc<Target>, Arc<Shared>>>,
}

struct Shared {
    stand: Weak<Stand>,
    /// When the store was last asked whether readers may go on. Locked while somebody asks.
    asked_at: tokio::sync::Mutex<Tick>,
}

impl Readers {
    /// From now on readers may join this stand.
    pub(super) fn offer(&self, stand: &Arc<Stand>) {
        let shared = Shared {
            stand: Arc::downgrade(stand),
            asked_at: tokio::sync::Mutex::new(stand.hold.taken_at),
        };
        let mut by_target = self.lock();
        // Names that nobody reads any more go when the map would grow.
        if by_target.len() == by_target.capacity() {
            by_target.retain(|_, shared| shared.stand.strong_count() > 0);
        }
        by_target.insert(Arc::clone(&stand.hold.target), Arc::new(shared));
    }

    fn find(&self, target: &Target) -> Option<Arc<Shared>> {
        self.lock().get(target).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<Target>, Arc<Shared>>> {
        self.by_target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of trying to join.
pub(super) enum Joined {
    Yes(Result<LockGuard, LockError>),
    /// There is nothing to join, or a writer goes first.
    No,
    /// So few replicas know of the hold (S-31). It stays as it is for those who share it.
    NotReplicated(u32),
    /// The store did not say.
    Unknown(StoreError),
}

impl Contention {
    /// Joins the read hold of this process, if there is one and no writer waits.
    pub(super) async fn join(&self, limit: Option<tokio::time::Instant>) -> Joined {
        let Some(shared) = self.engine.readers.find(&self.target) else { return Joined::No };
        // Kept while we ask, so that the hold cannot end in between.
        let Some(stand) = shared.stand.upgrade() else { return Joined::No };
        let (clock, timing) = (&self.engine.keeper.clock, self.engine.keeper.timing);
        let Some(mut asked_at) = until(limit, shared.asked_at.lock()).await else {
            return Joined::No;
        };
        let Ok(sent_at) = stand.hold.check() else { return Joined::No };
        let wanted = self.target.replicas();
        let replicas = |known: Option<Replicas>| known.map_or(0, |replicas| replicas.at_least);
        let known = replicas(stand.hold.target.replicas()) >= replicas(wanted);
        if !known || clock.now().since(*asked_at) >= timing.handoff_window {
            let request = AcquireRequest {
                // With our own replicas: the answer is only good if they know of the hold (S-31).
                target: Arc::clone(&self.target),
                owner: stand.hold.owner.clone(),
                lease: stand.hold.lease.duration(),
                tokens: 1,
                place: None,
                joins: true,
                timeout: timing.command_timeout
                    + wanted.map_or(Duration::ZERO, |wanted| wanted.timeout),
            };
            match self.engine.keeper.store.acquire(request).await {
                Ok(AcquireReply::Granted(_)) => {
                    stand.hold.confirm(sent_at, stand.hold.lease.duration());
                    *asked_at = sent_at;
                }
                Ok(AcquireReply::NotReplicated { acked }) => return Joined::NotReplicated(acked),
                Ok(_) => return Joined::No,
                Err(error) => return Joined::Unknown(error),
            }
        }
        drop(asked_at);
        match re_enter(stand, self.options) {
            Ok(guard) => Joined::Yes(guard),
            Err(extending) => Joined::Yes(extending.await),
        }
    }
}
