//! [`PlanCache`]: what a layer computes from the configurations of its clients.

use std::sync::Arc;

use lock_runtime::__layer_v1::LayerConfig;
use lock_runtime::LockError;
use lock_runtime::client::LockClientId;
use parking_lot::RwLock;

use crate::http::plan::Plan;
use crate::http::route_table::RouteTable;

/// The plans of a layer, by one configuration of one client.
pub(crate) enum Plans {
    One(Arc<Plan>),
    Routes(RouteTable),
}

/// The most clients that a layer remembers: it cannot know when a client is no longer used.
const MAX_CLIENTS: usize = 16;

/// The plans by the configuration of each client, made again when it changes. Above [`MAX_CLIENTS`] clients, it forgets the
/// client whose plans were made longest ago. Failures are kept too: the next request would fail in the same way.
#[derive(Default)]
pub(crate) struct PlanCache(RwLock<Vec<Made>>);

struct Made {
    client: LockClientId,
    config: Option<Arc<LayerConfig>>,
    plans: Result<Arc<Plans>, LockError>,
}

impl PlanCache {
    pub(crate) fn get(
        &self,
        client: LockClientId,
        config: Option<&Arc<LayerConfig>>,
        make: impl FnOnce() -> Result<Plans, LockError>,
    ) -> Result<Arc<Plans>, LockError> {
        let config_ptr = config.map(Arc::as_ptr);
        let is_current = |made: &&Made| {
            made.client == client && made.config.as_ref().map(Arc::as_ptr) == config_ptr
        };
        if let Some(made) = self.0.read().iter().find(is_current) {
            return made.plans.clone();
        }
        let plans = make().map(Arc::new);
        let mut made = self.0.write();
        made.retain(|made| made.client != client);
        made.truncate(MAX_CLIENTS - 1);
        made.insert(0, Made { client, config: config.cloned(), plans: plans.clone() });
        plans
    }
}
