//! Everything that can become of a lock, on any store.

use crate::observe::recorder::Kept;
pub(crate) use crate::prelude::*;

const CONFIG: &str = "
    [lock.policies]
    checkout = { wait = '5s' }
    tenant = { kind = 'fair' }
    trial = { enforce = false }
";

/// Clients of one store, as two processes would have them. The first has policies.
pub(crate) struct Pair {
    pub(crate) client: LockClient,
    pub(crate) other: LockClient,
}

/// What the first client of a [`Pair`] is built with.
pub(crate) fn builder() -> LockClientBuilder {
    let config = LockConfig::from_toml(CONFIG).unwrap();
    let a_moment = ms(300);
    LockClient::builder()
        .config(config)
        .handoff_window(SOON)
        .command_timeout(a_moment)
        .store_patience(a_moment)
}

/// Clients of one store in memory.
pub(crate) fn memory() -> Pair {
    let store = MemoryStore::new();
    let client = builder().store(store.clone()).unwrap();
    Pair { client, other: builder().store(store.peer()).unwrap() }
}

/// Clients of a server.
pub(crate) async fn redis(server: &RedisServer) -> Pair {
    let connect = async || builder().connect(&server.url()).await.unwrap();
    Pair { client: connect().await, other: connect().await }
}

#[distributed_lock(key = "job:{id}", policy = "trial", client = client)]
pub(crate) async fn try_out(client: &LockClient, id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job:{id}", policy = "checkout", client = client)]
pub(crate) async fn check_out(client: &LockClient, id: u64) -> Result<(), LockError> {
    Ok(())
}

/// Acquires of each outcome that needs no failing store; `name` tells scenarios apart.
pub(crate) async fn acquires(Pair { client, other }: &Pair, seen: &Kept, name: &str) {
    check_out(client, 1).await.unwrap();
    client.policy_lock("tenant", [name]).lock().await.unwrap().release().await.unwrap();
    let held = other.mutex("job:1").lock().await.unwrap();
    try_out(client, 1).await.unwrap();
    let mutex = client.mutex("job:1");
    mutex.clone().with(waits(ms(30))).lock().await.unwrap_err();
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert!(timeout(ms(30), mutex.lock()).await.is_err());
    client.fair_mutex("job:1").lock().await.unwrap_err();
    held.release().await.unwrap();
    hand_over(client, other, seen).await;
    nest(client).await;
    lose(client).await;
}

/// Two tasks wait for another process; the second gets the hold of the first.
async fn hand_over(client: &LockClient, other: &LockClient, seen: &Kept) {
    let held = other.mutex("line").lock().await.unwrap();
    let mutex = client.mutex("line");
    let wait = async || mutex.lock().await.unwrap().release().await.unwrap();
    let release = async {
        let waiting = async || seen.is("lock_waiting", &[("kind", "mutex")], 2);
        eventually(SOON, "two of them wait", waiting).await;
        held.release().await.unwrap();
    };
    tokio::join!(wait(), wait(), release);
}

/// One inside the other, beside the other, and the wrong way round.
async fn nest(client: &LockClient) {
    let outer = client.mutex("nest").lock().await.unwrap();
    outer.run(client.mutex("nest").lock()).await.unwrap().unwrap().release().await.unwrap();
    outer.release().await.unwrap();
    let lock = client.rw_lock("sides");
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    one.run(lock.write()).await.unwrap().unwrap_err();
    drop(one);
    two.release().await.unwrap();
    let permits = client.semaphore("permits", 1);
    permits.acquire().await.unwrap().release().await.unwrap();
    client.multi_lock(["a", "b"]).lock().await.unwrap().release().await.unwrap();
    client.latch("latch").reached().await.unwrap();
}

/// A lease that ends under its guard, entered again after that.
async fn lose(client: &LockClient) {
    let brief = fixed(ms(150));
    let mutex = client.mutex("brief").with(brief.clone()).on_lost(OnLost::Finish);
    let guard = mutex.lock().await.unwrap();
    let body = async {
        guard.lost().await;
        mutex.lock().await.unwrap_err()
    };
    assert!(guard.run(body).await.unwrap_err().is_lost());
    guard.release().await.unwrap_err();
}

/// A hold that the store does not know any more, found by a renewal; then one found by its release.
pub(crate) async fn taken_away(client: &LockClient, seen: &Kept) {
    let short = watched(ms(600));
    let guard = client.mutex("taken").with(short).lock().await.unwrap();
    let renewed = async || seen.sum("lock_renew_total", &[("outcome", "renewed")]) > 0.5;
    eventually(SOON, "it is renewed", renewed).await;
    assert!(client.admin().force_release("taken").await.unwrap());
    assert!(guard.lost().await.is_lost());
    guard.release().await.unwrap_err();
    let guard = client.mutex("taken").lock().await.unwrap();
    assert!(client.admin().force_release("taken").await.unwrap());
    guard.release().await.unwrap_err();
}
