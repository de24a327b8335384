//! The names in use on one server.
// S-35.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::RedisStore;
use crate::error::StoreError;
use crate::key::LockKey;
use crate::store::redis::requests::answers::{number, surprise};
use crate::store::redis::requests::names::{Candidate, Keys, Place, in_use};
use crate::store::{NamesCursor, NamesPage, StoreFuture};

/// One server's keys, until a deadline.
struct Here<'a> {
    store: &'a RedisStore,
    deadline: Instant,
}

impl Here<'_> {
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl Keys for Here<'_> {
    async fn is_lock(&self, candidate: &Candidate) -> Result<bool, StoreError> {
        self.store.is_lock(candidate, self.left()).await
    }

    async fn exists(&self, name: &LockKey) -> Result<bool, StoreError> {
        self.store.exists(name, self.left()).await
    }
}

impl RedisStore {
    pub(super) async fn page(
        &self,
        prefix: &str,
        from: &NamesCursor,
        deadline: Instant,
    ) -> Result<NamesPage, StoreError> {
        let place = from.place().map(|place| place.copied().unwrap_or(Place::START))?;
        let (next, candidates) = self.scan(prefix, place, deadline).await?;
        let checked = candidates.len();
        let names = in_use(candidates, prefix, &Here { store: self, deadline }).await?;
        Ok(NamesPage::new(names, next.map(NamesCursor::at)).with_checked(checked))
    }

    /// Visits some keys of this server.
    pub(in crate::store::redis) async fn scan(
        &self,
        prefix: &str,
        place: Place,
        deadline: Instant,
    ) -> Result<(Option<Place>, Vec<Candidate>), StoreError> {
        self.link.ensure_task();
        let answer = self.link.call(&place.scan(prefix), deadline).await?;
        place.scanned(&answer, prefix).ok_or_else(|| surprise(&answer.into()))
    }

    /// True if the key belongs to a lock.
    pub(in crate::store::redis) fn is_lock(
        &self,
        candidate: &Candidate,
        timeout: Duration,
    ) -> StoreFuture<'_, bool> {
        let check = candidate.check(self.link.publish());
        StoreFuture::new(async move { Ok(number(&self.run(&check, timeout).await?)? == 1) })
    }

    /// True if there is something at that name.
    pub(in crate::store::redis) fn exists(
        &self,
        name: &LockKey,
        timeout: Duration,
    ) -> StoreFuture<'_, bool> {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(name.as_str());
        StoreFuture::new(async move {
            let answer = self.link.call(&exists, Instant::now() + timeout).await?;
            Ok(answer == Value::Int(1))
        })
    }
}
