//! The names in use on a quorum: those of one server after the other.
// S-35.

use std::time::Duration;

use tokio::time::Instant;

use super::QuorumStore;
use super::tally::too_few;
use crate::error::StoreError;
use crate::store::{NamesCursor, NamesPage};

/// Where the listing goes on.
#[derive(Default)]
struct Place {
    server: usize,
    cursor: NamesCursor,
    /// True if a server has answered.
    answered: bool,
}

impl QuorumStore {
    /// A server that does not answer is left out, unless none does: every hold is on a majority.
    pub(super) async fn page(
        &self,
        prefix: &str,
        from: &NamesCursor,
        timeout: Duration,
    ) -> Result<NamesPage, StoreError> {
        let deadline = Instant::now() + timeout;
        let Place { server: first, cursor, answered } = match from.place::<Place>()? {
            Some(place) => Place { cursor: place.cursor.clone(), ..*place },
            None => Place::default(),
        };
        let (mut cursor, mut failed) = (cursor, None);
        for (number, server) in self.servers.iter().enumerate().skip(first) {
            let left = deadline.saturating_duration_since(Instant::now()).min(server.timeout);
            match server.store.names(prefix, std::mem::take(&mut cursor), left).await {
                Ok(page) => {
                    let next = self.after(number, page.next);
                    let names = NamesPage::new(page.names, next.map(NamesCursor::at));
                    return Ok(names.with_checked(page.checked));
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if !answered => Err(too_few(0, self.servers.len(), Some(error))),
            _ => Ok(NamesPage::default()),
        }
    }

    /// The place behind a page of that server.
    fn after(&self, server: usize, next: Option<NamesCursor>) -> Option<Place> {
        match next {
            Some(cursor) => Some(Place { server, cursor, answered: true }),
            None if server + 1 < self.servers.len() => {
                Some(Place { server: server + 1, cursor: NamesCursor::start(), answered: true })
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::key::LockKey;
    use crate::store::{AcquireRequest, HoldKind, MemoryStore, OwnerId, Store, Target};

    const LIMIT: Duration = Duration::from_secs(1);

    /// Each server has names that the others lack, in several pages.
    #[tokio::test]
    async fn the_names_are_those_of_all_servers() {
        let stores = [(); 3].map(|()| MemoryStore::new());
        for (number, store) in stores.iter().enumerate() {
            for name in 0..300 {
                let name = LockKey::new(format!("{}", name + 200 * number)).unwrap();
                let target = Target::mutex(name);
                assert_eq!(target.kind(), HoldKind::Mutex);
                let owner = OwnerId::new("a", 1, 1);
                store.acquire(AcquireRequest::new(target, owner, LIMIT, LIMIT)).await.unwrap();
            }
        }
        let stores = stores.map(|store| Arc::new(store) as Arc<dyn Store>).into();
        let quorum = QuorumStore::new(stores, LIMIT, None).expect("there are stores");
        let (mut names, mut cursor) = (Vec::new(), Some(NamesCursor::start()));
        while let Some(from) = cursor {
            let page = quorum.names("", from, LIMIT).await.unwrap();
            names.extend(page.names);
            cursor = page.next;
        }
        assert_eq!(names.len(), 900);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 700);
    }
}
