//! [`PlanCache`]: what a layer computes from the configurations of its clients.

use std::sync::Arc;

use lock_runtime::__layer_v1::LayerConfig;
use lock_runtime::LockError;
use parking_lot::RwLock;

use crate::http::plan::Plan;
use crate::http::route_table::RouteTable;

/// The plans of a layer, by one configuration of one client.
pub(crate) enum Plans {
    One(Arc<Plan>),
    Routes(Box<RouteTable>),
}

/// The most clients that a layer remembers: it cannot know when a client is no longer used.
const MAX_CLIENTS: usize = 16;

/// The plans by the configuration of each client, made again when it changes. Above [`MAX_CLIENTS`] clients, it forgets the
/// client whose plans were made longest ago. Failures are kept too: the next request would fail in the same way.
#[derive(Default)]
pub(crate) struct PlanCache(RwLock<Vec<Made>>);

struct Made {
    client: u128,
    config: Option<Arc<LayerConfig>>,
    plans: Result<Arc<Plans>, LockError>,
}

impl PlanCache {
    pub(crate) fn get(
        &self,
        client: u128,
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use lock_runtime::__layer_v1::layer_config;
    use lock_runtime::LockClient;
    use lock_runtime::policy::LockConfig;

    use super::*;

    fn configured() -> LockClient {
        LockClient::builder().config(LockConfig::default()).in_memory().unwrap()
    }

    /// Fails for each client, and counts how often it is asked to.
    #[derive(Default)]
    struct Maker {
        cache: PlanCache,
        made: Cell<u32>,
    }

    impl Maker {
        fn get(&self, client: &LockClient) {
            let config = layer_config(client);
            let plans = self.cache.get(client.id().as_u128(), config.as_ref(), || {
                self.made.set(self.made.get() + 1);
                Err(LockError::Closed)
            });
            assert!(matches!(plans, Err(LockError::Closed)));
        }
    }

    #[test]
    fn plans_are_made_once_for_each_configuration() {
        let (maker, a, b) = (Maker::default(), configured(), LockClient::in_memory());
        for _ in 0..100 {
            maker.get(&a);
            maker.get(&b.clone());
        }
        assert_eq!(maker.made.get(), 2);
        b.reload(LockConfig::default()).unwrap();
        for _ in 0..100 {
            maker.get(&a);
            maker.get(&b);
        }
        assert_eq!(maker.made.get(), 3);
    }

    #[test]
    fn clients_are_forgotten() {
        let maker = Maker::default();
        for _ in 0..1000 {
            maker.get(&configured());
        }
        assert_eq!(maker.cache.0.read().len(), MAX_CLIENTS);
    }
}
