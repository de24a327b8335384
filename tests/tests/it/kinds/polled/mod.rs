//! Futures that no task polls hold up others for a bounded time (S-34): waiters whose turn has come,
//! contenders at each of their await points, releases, in every kind.

mod awaits;
mod far;
mod inside;
mod line;
mod runtimes;
mod stress;

use far::Far;
use lock_runtime::acquire::Acquire;

use crate::prelude::*;

/// An acquire that a test polls when it likes.
type Acquiring = Pin<Box<Acquire>>;

/// The kinds that one holder at a time can have, by a word for each.
const KINDS: [&str; 6] = ["mutex", "fair", "write", "semaphore", "multi", "quorum"];

/// Takes a lock of that kind with that name; of a semaphore the only permit.
fn lock(client: &LockClient, kind: &str, name: &str) -> Acquiring {
    let forever = waits(Wait::Forever);
    Box::pin(match kind {
        // The quorum's client: see `clients`.
        "mutex" | "quorum" => client.mutex(name).with(forever).lock(),
        "fair" => client.fair_mutex(name).with(forever).lock(),
        "read" => client.rw_lock(name).with(forever).read(),
        "write" => client.rw_lock(name).with(forever).write(),
        "multi" => client.multi_lock([name, "another"]).with(forever).lock(),
        "semaphore" => client.semaphore(name, 1).with(forever).acquire(),
        _ => panic!("there is no kind {kind}"),
    })
}

/// Two processes that share locks in memory, each answer a few milliseconds away.
fn clients(kind: &str, lease: Duration) -> [LockClient; 2] {
    // The servers that keep the locks of that kind.
    let count = if kind == "quorum" { 3 } else { 1 };
    let servers: Vec<_> = (0..count).map(|_| MemoryStore::new()).collect();
    [client(kind, &servers, lease), client(kind, &servers, lease)]
}

fn client(kind: &str, servers: &[MemoryStore], lease: Duration) -> LockClient {
    let options = watched(lease);
    // Long enough to hand on what a far store has granted.
    let builder = LockClient::builder().options(options).handoff_window(ms(100));
    if kind == "quorum" {
        let stores =
            servers.iter().map(|server| Arc::new(Far::new(server.peer())) as Arc<dyn Store>);
        return builder.quorum_of(stores, RestartGuard::Off).unwrap();
    }
    builder.store(Far::new(servers[0].peer())).unwrap()
}

/// Polls a future once: it lines up, or asks the store, and is then left alone.
async fn polled_once(mut acquiring: Acquiring) -> Acquiring {
    assert!(poll!(&mut acquiring).is_pending(), "took a lock that was held");
    acquiring
}
