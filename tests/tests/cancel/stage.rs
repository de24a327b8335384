//! Two processes that share locks in memory, and what is left of a lock in the store.

use crate::far::Far;
use crate::prelude::*;

/// More than a request that is under way and one behind it take in the store that is under test: 10 ms each.
pub(crate) const ROUND_TRIP: Duration = ms(25);

/// How long another task or process holds the lock, from when the future under test is made.
pub(crate) const HELD_FOR: Duration = ms(300);

/// The kind of lock that a future is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    Read,
    Write,
    /// Two permits.
    Semaphore,
    /// The names `a` and `b`.
    Multi,
    /// The write sides of both names, part by part.
    Several,
    Quorum,
    Latch,
    /// The client itself: it may be closed afterwards.
    Client,
}

/// The limit of the semaphore.
pub(crate) const PERMITS: u32 = 2;

/// One process.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) client: LockClient,
    pub(crate) quorum: LockClient,
}

/// Two processes; each answer takes the first some milliseconds, and the other none.
pub(crate) struct Stage {
    pub(crate) far: Process,
    pub(crate) near: Process,
    pub(crate) store: MemoryStore,
    quorum: Vec<MemoryStore>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let store = MemoryStore::new();
        let quorum: Vec<_> = (0..3).map(|_| MemoryStore::new()).collect();
        let far = process(Far::new(store.peer()), quorum.iter().map(|it| Far::new(it.peer())));
        let near = process(store.peer(), quorum.iter().map(MemoryStore::peer));
        Self { far, near, store, quorum }
    }

    /// Has a process hold the lock, so that it is busy for the future under test, and release it later.
    pub(crate) async fn hold(&self, by: &Process, kind: Kind) -> JoinHandle<()> {
        let by = by.clone();
        if kind == Kind::Latch {
            assert!(by.client.latch("a").try_set_count(1).await.unwrap());
            return tokio::spawn(async move {
                sleep(HELD_FOR).await;
                by.client.latch("a").count_down().await.unwrap();
            });
        }
        let wanted = if kind == Kind::Read { Kind::Write } else { kind };
        let guard = by.take(wanted).await.unwrap();
        tokio::spawn(async move {
            sleep(HELD_FOR).await;
            guard.release().await.unwrap();
        })
    }

    /// What the stores have of the locks besides their counters: holders, and waiters with a place.
    pub(crate) async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for store in [&self.store].into_iter().chain(&self.quorum) {
            for name in ["a", "b"] {
                let found = store.inspect(&LockKey::new(name).unwrap(), secs(1)).await.unwrap();
                left.extend(found.holders.iter().map(|holder| format!("{name}: {holder:?}")));
                left.extend((0..found.waiting).map(|_| format!("{name}: a waiter")));
            }
        }
        left
    }

    /// Takes and releases the lock at once from the other process, in every manner that something left would prevent.
    pub(crate) async fn is_free(&self, kind: Kind) {
        let client = &self.near.client;
        let free = |tried: Result<Option<LockGuard>, LockError>, what: &str| {
            tried.unwrap().unwrap_or_else(|| panic!("the {what} is not free")).release()
        };
        match kind {
            Kind::Semaphore => {
                let permits = client.semaphore("a", PERMITS).try_acquire_many(PERMITS).await;
                permits.unwrap().expect("all permits").release().await.unwrap();
            }
            Kind::Latch => drop(client.latch("a").remove().await.unwrap()),
            _ => {
                for name in ["a", "b"] {
                    free(client.mutex(name).try_lock().await, "mutex").await.unwrap();
                    free(client.fair_mutex(name).try_lock().await, "fair mutex").await.unwrap();
                    free(client.rw_lock(name).try_read().await, "read side").await.unwrap();
                    free(client.rw_lock(name).try_write().await, "write side").await.unwrap();
                }
                free(self.near.quorum.mutex("a").try_lock().await, "quorum").await.unwrap();
            }
        }
    }
}

fn process<S: Store + 'static>(store: S, servers: impl Iterator<Item = S>) -> Process {
    let options = LockOptions::new().lease(Lease::Watchdog(secs(30)));
    // Long enough for a hold to pass from task to task.
    let client = || LockClient::builder().options(options.clone()).handoff_window(secs(1));
    let servers = servers.map(|server| Arc::new(server) as Arc<dyn Store>);
    let quorum = client();
    Process {
        client: client().store(store).unwrap(),
        quorum: quorum.quorum_of(servers, RestartGuard::Off).unwrap(),
    }
}

impl Process {
    /// A process whose client is this one. Its quorum is in memory.
    pub(crate) fn of(client: LockClient) -> Self {
        let servers = [Arc::new(MemoryStore::new()) as Arc<dyn Store>];
        let quorum = LockClient::builder().quorum_of(servers, RestartGuard::Off).unwrap();
        Self { client, quorum }
    }

    /// Takes the lock so that no other task can: all permits, the write side for a reader's.
    pub(crate) async fn take(&self, kind: Kind) -> Result<LockGuard, LockError> {
        let client = &self.client;
        match kind {
            Kind::Mutex => client.mutex("a").lock().await,
            Kind::Fair => client.fair_mutex("a").lock().await,
            Kind::Read => client.rw_lock("a").read().await,
            Kind::Write => client.rw_lock("a").write().await,
            Kind::Semaphore => client.semaphore("a", PERMITS).acquire_many(PERMITS).await,
            Kind::Multi => client.multi_lock(["a", "b"]).lock().await,
            Kind::Several => client.any_lock(LockKind::Write, ["a", "b"]).lock().await,
            Kind::Quorum => self.quorum.mutex("a").lock().await,
            Kind::Latch | Kind::Client => panic!("nothing to take"),
        }
    }
}
