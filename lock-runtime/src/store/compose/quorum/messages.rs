//! Messages between the clients of a quorum, over all its servers.
//!
//! Two majorities share a server. So a message that a majority took reaches every client whose subscription a majority
//! has confirmed, and usually reaches it once for each server.
// S-35.

use std::time::Duration;

use super::tally::too_few;
use super::{QuorumStore, majority};
use crate::error::StoreError;
use crate::store::{Listening, OnMessage};

impl QuorumStore {
    pub(super) fn listen_at_all(&self, channel: &str, on_message: &OnMessage) -> Listening {
        let servers = self.servers.iter();
        let listenings = servers.map(|server| server.store.listen(channel, on_message.clone()));
        Listening::all_of(listenings)
    }

    /// Waits until a majority has confirmed the subscription.
    pub(super) async fn listened_at_most(
        &self,
        channel: String,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let mut answers = self.each(|server| {
            let (channel, timeout) = (channel.clone(), server.timeout.min(timeout));
            async move { server.store.listened(&channel, timeout).await }
        });
        let (all, mut confirmed, mut failed) = (self.servers.len(), 0, None);
        while let Some(answer) = answers.recv().await {
            match answer {
                Ok(()) => confirmed += 1,
                Err(error) => failed = failed.or(Some(error)),
            }
            if confirmed >= majority(all) {
                return Ok(());
            }
        }
        Err(too_few(confirmed, all, failed))
    }

    /// Publishes on all servers. Returns the highest count, once all have answered; fails only if none took the message,
    /// since operators ask most when servers are down.
    pub(super) async fn publish_at_all(
        &self,
        channel: String,
        message: Vec<u8>,
        timeout: Duration,
    ) -> Result<u32, StoreError> {
        let mut answers = self.each(|server| {
            let (channel, message) = (channel.clone(), message.clone());
            let timeout = server.timeout.min(timeout);
            async move { server.store.publish(&channel, &message, timeout).await }
        });
        let (mut received, mut failed) = (None, None);
        while let Some(answer) = answers.recv().await {
            match answer {
                Ok(count) => received = received.max(Some(count)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        received.ok_or_else(|| too_few(0, self.servers.len(), failed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::StoreErrorKind;
    use crate::store::{MemoryStore, Store};

    const LIMIT: Duration = Duration::from_secs(1);

    fn quorum(stores: &[MemoryStore]) -> QuorumStore {
        let stores = stores.iter().map(|store| Arc::new(store.peer()) as Arc<dyn Store>).collect();
        QuorumStore::new(stores, LIMIT, None).expect("there are stores")
    }

    /// Every server delivers, so a client that misses some of them receives the message from another.
    #[tokio::test]
    async fn a_message_goes_over_all_servers() {
        let stores = [(); 3].map(|()| MemoryStore::new());
        let (a, b) = (quorum(&stores), quorum(&stores));
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let listening = a.listen(
            "c",
            Arc::new(move |message: &[u8]| {
                assert_eq!(message, b"hello");
                counted.fetch_add(1, Ordering::SeqCst);
            }),
        );
        a.listened("c", LIMIT).await.unwrap();
        assert_eq!(b.publish("c", b"hello", LIMIT).await.unwrap(), 1);
        assert_eq!(count.load(Ordering::SeqCst), 3);
        drop(listening);
        assert_eq!(b.publish("c", b"hello", LIMIT).await.unwrap(), 0);
        let error = a.listened("c", LIMIT).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    }
}
