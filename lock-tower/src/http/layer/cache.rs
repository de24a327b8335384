//! Values that a layer computes from the configurations of its clients.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_runtime::LockClient;
use lock_runtime::client::LockClientId;
use lock_runtime::policy::LockConfig;
use parking_lot::RwLock;

use crate::http::error::BuildError;

/// The most clients that a layer remembers: it cannot know when a client is no longer used.
const MAX_CLIENTS: usize = 64;

/// A value for each client, computed from the client's configuration and computed again when the configuration
/// changes.
///
/// Above [`MAX_CLIENTS`] clients, it forgets the client that was used longest ago.
pub(crate) struct Cache<T>(RwLock<Clients<T>>);

struct Clients<T> {
    /// The clients make their ids, so none are chosen to collide.
    by_id: HashMap<LockClientId, Known<T>, foldhash::fast::RandomState>,
    /// How many clients have been added.
    added: u64,
}

struct Known<T> {
    value: Arc<ClientValue<T>>,
    /// The value of `added` when this client was last used. Clients are forgotten only when one is added, so
    /// this is precise enough, and a request seldom writes it.
    used_at: AtomicU64,
}

/// The value of one client. It has its own lock, so that computing it blocks no other client.
type ClientValue<T> = RwLock<Option<Computed<T>>>;

struct Computed<T> {
    config: Arc<LockConfig>,
    /// Failures are kept too: the next request would fail in the same way.
    result: Result<Arc<T>, BuildError>,
}

impl<T> Cache<T> {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Clients { by_id: HashMap::default(), added: 0 }))
    }

    /// Returns the value for `config`, which is the configuration of `client`. If `make` fails, the client's
    /// previous value stays in use, and the failure is logged once for each configuration.
    pub(crate) fn get(
        &self,
        client: &LockClient,
        config: &Arc<LockConfig>,
        make: impl FnOnce() -> Result<T, BuildError>,
    ) -> Result<Arc<T>, BuildError> {
        let clients = self.0.read();
        let value = clients.by_id.get(&client.id()).map(|known| {
            // Even a write that changes nothing would take the cache line from other processors.
            if known.used_at.load(Ordering::Relaxed) != clients.added {
                known.used_at.store(clients.added, Ordering::Relaxed);
            }
            &known.value
        });
        // It does not wait for the value here, where it would block the requests of other clients.
        if let Some(current) = value.and_then(|value| value.try_read())
            && let Some(result) = result_for(&current, config)
        {
            return result;
        }
        let value = value.map(Arc::clone);
        drop(clients);
        let value = value.unwrap_or_else(|| self.0.write().add(client.id()));
        compute(&value, config, make)
    }
}

impl<T> Clients<T> {
    fn add(&mut self, client: LockClientId) -> Arc<ClientValue<T>> {
        if self.by_id.len() >= MAX_CLIENTS && !self.by_id.contains_key(&client) {
            let used_at = |known: &Known<T>| known.used_at.load(Ordering::Relaxed);
            let oldest = self.by_id.iter().min_by_key(|(_, known)| used_at(known));
            if let Some(oldest) = oldest.map(|(client, _)| *client) {
                self.by_id.remove(&oldest);
            }
        }
        self.added += 1;
        let used_at = self.added.into();
        let known = self.by_id.entry(client);
        Arc::clone(&known.or_insert_with(|| Known { value: Arc::default(), used_at }).value)
    }
}

/// Computes the value, unless another request has done so while this one waited for the write lock.
fn compute<T>(
    value: &ClientValue<T>,
    config: &Arc<LockConfig>,
    make: impl FnOnce() -> Result<T, BuildError>,
) -> Result<Arc<T>, BuildError> {
    let mut current = value.write();
    if let Some(result) = result_for(&current, config) {
        return result;
    }
    let result = match (make(), current.take()) {
        (Ok(made), _) => Ok(Arc::new(made)),
        (Err(error), Some(Computed { result: Ok(previous), .. })) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a lock layer cannot follow the new configuration and keeps the previous one"
            );
            Ok(previous)
        }
        (Err(error), _) => Err(error),
    };
    *current = Some(Computed { config: Arc::clone(config), result: result.clone() });
    result
}

fn result_for<T>(
    current: &Option<Computed<T>>,
    config: &Arc<LockConfig>,
) -> Option<Result<Arc<T>, BuildError>> {
    let computed = current.as_ref().filter(|computed| Arc::ptr_eq(&computed.config, config))?;
    Some(computed.result.clone())
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use lock_runtime::policy::LockFile;

    use super::*;

    fn configured() -> LockClient {
        let file: LockFile = toml::from_str("[lock]").unwrap();
        LockClient::builder().config(file.lock).in_memory().unwrap()
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

        fn get(&self, client: &LockClient, ok: bool) -> Result<u32, String> {
            let config = client.config().unwrap();
            let made = self.cache.get(client, &config, || {
                self.made.set(self.made.get() + 1);
                if ok { Ok(self.made.get()) } else { Err(BuildError::new("bad")) }
            });
            made.map(|made| *made).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn each_client_has_its_own_and_makes_it_once() {
        let (maker, a, b) = (Maker::new(), configured(), configured());
        for _ in 0..100 {
            assert_eq!(maker.get(&a, true), Ok(1));
            assert_eq!(maker.get(&b.clone(), true), Ok(2));
        }
        b.reload((*b.config().unwrap()).clone()).unwrap();
        for _ in 0..100 {
            assert_eq!(maker.get(&b, false), Ok(2), "its old one");
            assert_eq!(maker.get(&a, true), Ok(1));
        }
        assert_eq!(maker.made.get(), 3, "one try for each configuration");
    }

    #[test]
    fn a_failure_is_kept_until_the_next_configuration() {
        let (maker, good, bad) = (Maker::new(), configured(), configured());
        assert_eq!(maker.get(&good, true), Ok(1));
        for _ in 0..100 {
            assert_eq!(maker.get(&bad, false), Err("bad".to_owned()), "not another client's");
        }
        assert_eq!(maker.made.get(), 2);
        bad.reload((*bad.config().unwrap()).clone()).unwrap();
        assert_eq!(maker.get(&bad, true), Ok(3));
    }

    #[test]
    fn the_client_that_was_used_longest_ago_is_forgotten() {
        let maker = Maker::new();
        let clients: Vec<_> = (0..=MAX_CLIENTS).map(|_| configured()).collect();
        let (last, first) = clients.split_last().unwrap();
        for client in first {
            maker.get(client, true).unwrap();
        }
        assert_eq!(maker.get(&first[0], true), Ok(1));
        maker.get(last, true).unwrap();
        let made = maker.made.get();
        assert_eq!(maker.get(&first[0], true), Ok(1), "just used");
        assert_eq!(maker.get(&first[1], true), Ok(made + 1), "forgotten");
        for _ in 0..1000 {
            maker.get(&configured(), true).unwrap();
        }
        assert_eq!(maker.cache.0.read().by_id.len(), MAX_CLIENTS);
    }

    #[test]
    fn one_of_two_concurrent_requests_computes_the_value() {
        let (value, config) = (ClientValue::default(), configured().config().unwrap());
        for _ in 0..2 {
            assert_eq!(compute(&value, &config, || Ok(1)).map(|made| *made), Ok(1));
            assert_eq!(
                compute(&value, &config, || Ok(2)).map(|made| *made),
                Ok(1),
                "it came second"
            );
        }
    }

    #[test]
    fn computing_the_value_of_a_client_blocks_no_other_client() {
        let (cache, slow, quick) = (Cache::new(), configured(), configured());
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let (cache, slow) = (&cache, &slow);
        thread::scope(|scope| {
            scope.spawn(move || {
                let made = cache.get(slow, &slow.config().unwrap(), || {
                    begun.send(()).unwrap();
                    Ok(goes_on.recv_timeout(Duration::from_secs(5)).is_ok())
                });
                assert!(*made.unwrap(), "the other client has waited");
            });
            begins.recv().unwrap();
            for _ in 0..3 {
                cache.get(&quick, &quick.config().unwrap(), || Ok(true)).unwrap();
            }
            go_on.send(()).unwrap();
        });
    }
}
