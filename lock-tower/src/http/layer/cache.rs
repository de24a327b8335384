//! What a layer has made of the configurations of the clients that it works for.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_runtime::LockClient;
use lock_runtime::client::LockClientId;
use lock_runtime::policy::LockConfig;
use parking_lot::RwLock;

use crate::http::layer::builder::BuildError;

/// Clients come and go, and no layer is told of it.
pub(crate) const MOST_CLIENTS: usize = 64;

/// Something made, for each client, of the configuration that is in effect there; made anew when another
/// one is.
///
/// Of more than [`MOST_CLIENTS`] clients, the one that has not been here for longest is forgotten.
pub(crate) struct Cache<T>(RwLock<Clients<T>>);

struct Clients<T> {
    of: HashMap<LockClientId, Known<T>>,
    /// How many have been let in.
    arrivals: u64,
}

struct Known<T> {
    slot: Arc<Slot<T>>,
    /// How many had been let in when it was here last. Only arrivals forget anybody, so that nothing
    /// finer is needed, and a request seldom has anything to write.
    seen: AtomicU64,
}

/// One client's. A lock of its own, so that whoever makes something holds up no other client.
type Slot<T> = RwLock<Option<Made<T>>>;

struct Made<T> {
    of: Arc<LockConfig>,
    /// A failure is kept as well: it would not come out otherwise with the next request.
    made: Result<Arc<T>, BuildError>,
}

impl<T> Cache<T> {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Clients { of: HashMap::new(), arrivals: 0 }))
    }

    /// What is made of `config`, which is in effect in `client`. If it cannot be made, what was before
    /// in that client stays in use, and the log says so once for each configuration.
    pub(crate) fn get(
        &self,
        client: &LockClient,
        config: &Arc<LockConfig>,
        make: impl FnOnce() -> Result<T, BuildError>,
    ) -> Result<Arc<T>, BuildError> {
        let slot = self.slot(client.id());
        if let Some(made) = of(&slot.read(), config) {
            return made;
        }
        renew(&slot, config, make)
    }

    fn slot(&self, client: LockClientId) -> Arc<Slot<T>> {
        let clients = self.0.read();
        if let Some(known) = clients.of.get(&client) {
            // A write that changes nothing would still take the line from other processors.
            if known.seen.load(Ordering::Relaxed) != clients.arrivals {
                known.seen.store(clients.arrivals, Ordering::Relaxed);
            }
            return Arc::clone(&known.slot);
        }
        drop(clients);
        let mut clients = self.0.write();
        clients.let_in(client)
    }
}

impl<T> Clients<T> {
    fn let_in(&mut self, client: LockClientId) -> Arc<Slot<T>> {
        if self.of.len() >= MOST_CLIENTS && !self.of.contains_key(&client) {
            let seen = |known: &Known<T>| known.seen.load(Ordering::Relaxed);
            let longest = self.of.iter().min_by_key(|(_, known)| seen(known));
            if let Some(longest) = longest.map(|(client, _)| *client) {
                self.of.remove(&longest);
            }
        }
        self.arrivals += 1;
        let arrivals = self.arrivals.into();
        let known = self.of.entry(client);
        let known = known.or_insert_with(|| Known { slot: Arc::default(), seen: arrivals });
        Arc::clone(&known.slot)
    }
}

/// Makes it, if no other request has done so while this one waited for its turn.
fn renew<T>(
    slot: &Slot<T>,
    config: &Arc<LockConfig>,
    make: impl FnOnce() -> Result<T, BuildError>,
) -> Result<Arc<T>, BuildError> {
    let mut current = slot.write();
    if let Some(made) = of(&current, config) {
        return made;
    }
    let made = match (make(), current.take()) {
        (Ok(made), _) => Ok(Arc::new(made)),
        (Err(error), Some(Made { made: Ok(before), .. })) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the new configuration does not go with a lock layer, which keeps to the old one"
            );
            Ok(before)
        }
        (Err(error), _) => Err(error),
    };
    *current = Some(Made { of: Arc::clone(config), made: made.clone() });
    made
}

fn of<T>(
    current: &Option<Made<T>>,
    config: &Arc<LockConfig>,
) -> Option<Result<Arc<T>, BuildError>> {
    let made = current.as_ref().filter(|made| Arc::ptr_eq(&made.of, config))?;
    Some(made.made.clone())
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
    fn the_client_that_was_here_longest_ago_is_forgotten() {
        let maker = Maker::new();
        let clients: Vec<_> = (0..=MOST_CLIENTS).map(|_| configured()).collect();
        let (last, first) = clients.split_last().unwrap();
        for client in first {
            maker.get(client, true).unwrap();
        }
        assert_eq!(maker.get(&first[0], true), Ok(1));
        maker.get(last, true).unwrap();
        let made = maker.made.get();
        assert_eq!(maker.get(&first[0], true), Ok(1), "it has just been here");
        assert_eq!(maker.get(&first[1], true), Ok(made + 1), "it has been forgotten");
        for _ in 0..1000 {
            maker.get(&configured(), true).unwrap();
        }
        assert_eq!(maker.cache.0.read().of.len(), MOST_CLIENTS);
    }

    #[test]
    fn of_requests_that_meet_one_makes_it() {
        let (slot, config) = (Slot::default(), configured().config().unwrap());
        for _ in 0..2 {
            assert_eq!(renew(&slot, &config, || Ok(1)).map(|made| *made), Ok(1));
            assert_eq!(renew(&slot, &config, || Ok(2)).map(|made| *made), Ok(1), "it came second");
        }
    }

    #[test]
    fn a_client_whose_plans_are_made_holds_up_no_other() {
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
