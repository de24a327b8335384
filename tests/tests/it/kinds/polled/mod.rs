//! Futures that no task polls hold up others for a bounded time (S-34): waiters whose turn has come,
//! contenders at each of their await points, releases, in every kind.

mod awaits;
mod far;
mod inside;
mod line;
mod runtimes;
mod stress;

use far::Far;

use crate::prelude::*;

/// An acquire that a test polls when it likes.
type Acquiring = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// The kinds that one holder at a time can have, by a word for each.
const KINDS: [&str; 6] = ["mutex", "fair", "write", "semaphore", "multi", "quorum"];

/// Takes a lock of that kind with that name; of a semaphore the only permit.
fn lock(client: &LockClient, kind: &str, name: &str) -> Acquiring {
    match kind {
        // The quorum's client: see `clients`.
        "mutex" | "quorum" => Box::pin(client.mutex(name).wait(Wait::Forever).lock()),
        "fair" => Box::pin(client.fair_mutex(name).wait(Wait::Forever).lock()),
        "read" => Box::pin(client.rw_lock(name).wait(Wait::Forever).read()),
        "write" => Box::pin(client.rw_lock(name).wait(Wait::Forever).write()),
        "multi" => Box::pin(client.multi_lock([name, "another"]).wait(Wait::Forever).lock()),
        "semaphore" => {
            let semaphore = client.semaphore(name, 1).wait(Wait::Forever);
            Box::pin(async move { semaphore.acquire().await })
        }
        _ => panic!("there is no kind {kind}"),
    }
}

/// Two processes that share locks in memory, each answer a few milliseconds away.
fn clients(kind: &str, lease: Duration) -> [LockClient; 2] {
    let servers = servers(kind);
    [client(kind, &servers, lease), client(kind, &servers, lease)]
}

/// The servers that keep the locks of that kind.
fn servers(kind: &str) -> Vec<MemoryStore> {
    let count = if kind == "quorum" { 3 } else { 1 };
    (0..count).map(|_| MemoryStore::new()).collect()
}

fn client(kind: &str, servers: &[MemoryStore], lease: Duration) -> LockClient {
    let options = watched(lease);
    // Long enough to hand on what a far store has granted.
    let builder = LockClient::builder().options(options).handoff_window(ms(100));
    if kind == "quorum" {
        let stores =
            servers.iter().map(|server| Arc::new(Far::new(server.peer())) as Arc<dyn Store>);
        let quorum = builder;
        return quorum.quorum_of(stores, RestartGuard::Off).unwrap();
    }
    builder.store(Far::new(servers[0].peer())).unwrap()
}

/// Polls a future once: it lines up, or asks the store, and is then left alone.
async fn polled_once(mut acquiring: Acquiring) -> Acquiring {
    assert!(poll!(&mut acquiring).is_pending(), "took a lock that was held");
    acquiring
}
