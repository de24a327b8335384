//! What an annotated function allocates, beside the same written by hand. `benches` counts the plain attribute.

use std::future::ready;

use lock_runtime::{LockClient, LockError, LockKey, distributed_lock};
use stats_alloc::Region;

use super::{ALLOCATOR, alone};

/// Calls of each. The fewest allocations of them are its own; what else happens in the process, such
/// as a table that grows, comes on top of single calls.
const CALLS: usize = 64;

#[distributed_lock(key = "order:{id}")]
async fn attribute(id: u64) -> Result<u64, LockError> {
    Ok(ready(id).await)
}

#[distributed_lock(key = "order:{id}", guard = hold)]
async fn attribute_with_guard(id: u64) -> Result<u64, LockError> {
    Ok(ready(hold.token().get().min(id)).await)
}

async fn by_hand_with_guard(id: u64) -> Result<u64, LockError> {
    let key = LockKey::builder().text("order:").part(&id).build()?;
    let guard = LockClient::current().unwrap().mutex(key).lock().await?;
    let body = async { Ok(ready(guard.token().get().min(id)).await) };
    let result = guard.run(body).await?;
    guard.release().await?;
    result
}

#[distributed_lock(keys = ["acct:{from}", "acct:{to}"])]
async fn attribute_of_two(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(ready(from + to).await)
}

async fn by_hand_of_two(from: u64, to: u64) -> Result<u64, LockError> {
    let keys = [from, to].map(|id| LockKey::builder().text("acct:").part(&id).build());
    let guard = LockClient::current().unwrap().multi_lock(keys).lock().await?;
    let result = guard.run(async move { Ok(ready(from + to).await) }).await?;
    guard.release().await?;
    result
}

#[distributed_lock(key = "order:{id}", on_busy = skip)]
async fn skipping(id: u64) -> Result<Option<u64>, LockError> {
    Ok(Some(ready(id).await))
}

async fn skipping_by_hand(id: u64) -> Result<Option<u64>, LockError> {
    let key = LockKey::builder().text("order:").part(&id).build()?;
    let Some(guard) = LockClient::current().unwrap().mutex(key).try_lock().await? else {
        return Ok(None);
    };
    let result = guard.run(async move { Ok(Some(ready(id).await)) }).await?;
    guard.release().await?;
    result
}

/// Allocations of one call.
async fn allocated<T>(call: impl AsyncFn() -> Result<T, LockError>) -> usize {
    let mut fewest = usize::MAX;
    for _ in 0..CALLS {
        let region = Region::new(ALLOCATOR);
        let result = call().await;
        let change = region.change();
        result.unwrap();
        fewest = fewest.min(change.allocations + change.reallocations);
    }
    fewest
}

async fn compare(place: &str) {
    for (what, attribute, by_hand, more) in [
        (
            "skipped if busy",
            allocated(async || skipping(7).await).await,
            allocated(async || skipping_by_hand(7).await).await,
            0,
        ),
        (
            "two keys",
            allocated(async || attribute_of_two(7, 8).await).await,
            allocated(async || by_hand_of_two(7, 8).await).await,
            0,
        ),
        (
            "with its guard",
            allocated(async || attribute_with_guard(7).await).await,
            allocated(async || by_hand_with_guard(7).await).await,
            1,
        ),
    ] {
        assert!(attribute <= by_hand + more, "{place}, {what}: {attribute}, by hand {by_hand}");
    }
}

/// The attribute allocates what the code does that one would write by hand; a guard's name costs one
/// more, because the guard and the body that borrows it are kept in one place.
#[tokio::test]
async fn the_attribute_allocates_no_more_than_code_by_hand() {
    let _alone = alone().await;
    let client = LockClient::in_memory();
    client.install();
    compare("outermost").await;
    // S-6: nothing of the store's is in these, only the names of the lock, a link of the chain, and the place inside of the hold.
    let one = client.mutex("order:7").lock().await.unwrap();
    let two = client.multi_lock(["acct:7", "acct:8"]).lock().await.unwrap();
    one.run(two.run(compare("nested"))).await.unwrap().unwrap();
    let nested = one.run(allocated(async || attribute(7).await)).await.unwrap();
    assert!(nested <= 7, "{nested} allocations of a nested call");
}
