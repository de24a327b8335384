//! The lock order allocates only for what it has not seen before.

use std::pin::Pin;

use lock_runtime::{LockClient, LockError, distributed_lock};

use super::{allocations, alone};

const ROUNDS: usize = 1_000;

#[distributed_lock(key = "cost-tenant:{tenant}:order:{id}")]
async fn attribute(tenant: &str, id: u64) -> Result<(), LockError> {
    Ok(())
}

/// What rounds of nested acquires allocate: the least of some counts, since tasks in the background allocate, too.
async fn nested(is_on: bool) -> usize {
    let client = LockClient::builder().namespace("shop").lock_order(is_on).in_memory().unwrap();
    let (outer, of_class) = (client.mutex("cost-outer:1"), client.mutex("cost-outer:2"));
    let inner = client.mutex("cost-inner:1");
    let mut least = usize::MAX;
    for _ in 0..5 {
        let body: Pin<Box<dyn Future<Output = usize>>> =
            Box::pin(allocations(ROUNDS, async || {
                of_class.run(inner.run(async {})).await.unwrap().unwrap();
                attribute("t", 1).await.unwrap();
            }));
        least = least.min(outer.run(async { client.scope(body).await }).await.unwrap());
    }
    least
}

#[tokio::test]
async fn a_known_edge_allocates_nothing() {
    let _alone = alone().await;
    let (off, on) = (nested(false).await, nested(true).await);
    println!(
        "{ROUNDS} rounds of three nested acquires: {off} allocations without the order, {on} with it"
    );
    assert!(on < off + ROUNDS / 10, "{on} allocations with the lock order, {off} without");
    let client = LockClient::in_memory();
    let seen =
        client.admin().lock_order().edges.iter().filter(|edge| edge.outer == "cost-outer").count();
    assert_eq!(seen, 3, "of one class, of another, and of the attribute's");
}
