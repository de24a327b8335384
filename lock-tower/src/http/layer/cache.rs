//! Values that a layer computes from the configurations of its clients.

use std::sync::Arc;

use lock_runtime::__layer_v1::LayerConfig;
use lock_runtime::client::LockClientId;
use lock_runtime::{LockClient, LockError};
use parking_lot::RwLock;

/// The most clients that a layer remembers: it cannot know when a client is no longer used.
const MAX_CLIENTS: usize = 16;

/// A value for each client, computed from the client's configuration and computed again when the configuration
/// changes. Above [`MAX_CLIENTS`] clients, it forgets the client that was computed longest ago.
#[derive(Debug)]
pub(crate) struct Cache<T>(RwLock<Vec<Computed<T>>>);

#[derive(Debug)]
struct Computed<T> {
    client: LockClientId,
    config: Arc<LayerConfig>,
    /// Failures are kept too: the next request would fail in the same way.
    result: Result<Arc<T>, LockError>,
}

impl<T> Cache<T> {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// Returns the value for `config`, which is the configuration of `client`. If `make` fails, the client's
    /// previous value stays in use, and the failure is logged once for each configuration.
    pub(crate) fn get(
        &self,
        client: &LockClient,
        config: &Arc<LayerConfig>,
        make: impl FnOnce() -> Result<T, LockError>,
    ) -> Result<Arc<T>, LockError> {
        let id = client.id();
        let is_current =
            |known: &&Computed<T>| known.client == id && Arc::ptr_eq(&known.config, config);
        if let Some(known) = self.0.read().iter().find(is_current) {
            return known.result.clone();
        }
        let made = make().map(Arc::new);
        let mut known = self.0.write();
        let before = known.iter().position(|known| known.client == id).map(|at| known.remove(at));
        let result = match (made, before) {
            (Err(error), Some(Computed { result: Ok(previous), .. })) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a lock layer cannot follow the new configuration and keeps the previous one"
                );
                Ok(previous)
            }
            (made, _) => made,
        };
        if known.len() >= MAX_CLIENTS {
            known.remove(0);
        }
        known.push(Computed { client: id, config: Arc::clone(config), result: result.clone() });
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use lock_runtime::policy::LockConfig;

    use super::*;

    fn configured() -> LockClient {
        LockClient::builder().config(LockConfig::default()).in_memory().unwrap()
    }

    /// Counts what is made, of numbers.
    struct Maker {
        cache: Cache<u32>,
        made: Cell<u32>,
    }

    impl Maker {
        fn new() -> Self {
            Self { cache: Cache::new(), made: Cell::new(0) }
        }

        fn get(&self, client: &LockClient, ok: bool) -> Option<u32> {
            let config = client.layer_config().unwrap();
            let made = self.cache.get(client, &config, || {
                self.made.set(self.made.get() + 1);
                ok.then(|| self.made.get()).ok_or(LockError::Closed)
            });
            made.map(|made| *made).ok()
        }
    }

    #[test]
    fn each_client_has_its_own_and_makes_it_once() {
        let (maker, a, b) = (Maker::new(), configured(), configured());
        for _ in 0..100 {
            assert_eq!(maker.get(&a, true), Some(1));
            assert_eq!(maker.get(&b.clone(), true), Some(2));
        }
        b.reload((*b.config().unwrap()).clone()).unwrap();
        for _ in 0..100 {
            assert_eq!(maker.get(&b, false), Some(2), "its old one");
            assert_eq!(maker.get(&a, true), Some(1));
        }
        assert_eq!(maker.made.get(), 3, "one try for each configuration");
    }

    #[test]
    fn a_failure_is_kept_until_the_next_configuration() {
        let (maker, good, bad) = (Maker::new(), configured(), configured());
        assert_eq!(maker.get(&good, true), Some(1));
        for _ in 0..100 {
            assert_eq!(maker.get(&bad, false), None, "not another client's");
        }
        assert_eq!(maker.made.get(), 2);
        bad.reload((*bad.config().unwrap()).clone()).unwrap();
        assert_eq!(maker.get(&bad, true), Some(3));
    }

    #[test]
    fn clients_are_forgotten() {
        let maker = Maker::new();
        for _ in 0..1000 {
            maker.get(&configured(), true).unwrap();
        }
        assert_eq!(maker.cache.0.read().len(), MAX_CLIENTS);
    }
}
