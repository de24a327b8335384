//! What the servers of a quorum report of themselves, for people who operate them.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::QuorumStore;
use crate::error::StoreError;
use crate::store::{MissingRight, ServerFacts, ServerReport};

impl QuorumStore {
    pub(super) async fn reports(&self) -> Result<Vec<ServerReport<ServerFacts>>, StoreError> {
        let asked = self.servers.iter().map(|server| server.store.servers(server.timeout));
        Ok(try_join_all(asked).await?.into_iter().flatten().collect())
    }

    pub(super) async fn rights(
        &self,
        timeout: Duration,
    ) -> Result<Vec<ServerReport<Vec<MissingRight>>>, StoreError> {
        let asked = self.servers.iter().map(|server| server.store.missing_rights(timeout));
        Ok(try_join_all(asked).await?.into_iter().flatten().collect())
    }
}
