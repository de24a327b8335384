//! What a task inherits does not grow from generation to generation.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lock_runtime::{LockClient, LockGuard, scope};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use super::{alone, live_bytes};

/// How each generation starts the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Under a lock of its own, which is released before the next begins.
    OwnLock,
    /// Under one guard that lives as long as all of them.
    OneGuard,
    /// Under a re-entry of that guard, which is over before the next begins.
    ReEntry,
    /// In the scope of its client.
    Scope,
    /// The same, without a word about inheritance: a scope carries it, too.
    ScopeAlone,
}

#[derive(Clone)]
struct World {
    how: How,
    client: LockClient,
    guard: Arc<LockGuard>,
    in_use: mpsc::UnboundedSender<usize>,
}

fn generation(world: World, left: usize) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        // The one before it is over by then.
        yield_now().await;
        if left.is_multiple_of(1_000) {
            world.in_use.send(live_bytes()).unwrap();
        }
        if left == 0 {
            return;
        }
        let next = generation(world.clone(), left - 1);
        let spawn = async { drop(tokio::spawn(scope::inherit(next))) };
        match world.how {
            How::OwnLock => {
                let guard = world.client.mutex("own").lock().await.unwrap();
                guard.run(spawn).await.unwrap();
                guard.release().await.unwrap();
            }
            How::OneGuard => world.guard.run(spawn).await.unwrap(),
            How::ReEntry => {
                let nested = world.client.mutex("root").lock().await.unwrap();
                nested.run(spawn).await.unwrap();
                nested.release().await.unwrap();
            }
            How::Scope => world.client.scope(spawn).await,
            How::ScopeAlone => {
                let next = generation(world.clone(), left - 1);
                drop(tokio::spawn(world.client.scope(next)));
            }
        }
    })
}

#[tokio::test]
async fn chains_do_not_grow_with_generations() {
    let _alone = alone().await;
    for how in [How::OwnLock, How::OneGuard, How::ReEntry, How::Scope, How::ScopeAlone] {
        let client = LockClient::in_memory();
        let guard = Arc::new(client.mutex("root").lock().await.unwrap());
        let (sender, mut received) = mpsc::unbounded_channel();
        let world = World { how, client, guard: Arc::clone(&guard), in_use: sender };
        // The last generation still re-enters what the first was run under.
        guard
            .run(async { drop(tokio::spawn(scope::inherit(generation(world, 3_000)))) })
            .await
            .unwrap();
        let mut in_use = Vec::new();
        while let Some(bytes) = received.recv().await {
            in_use.push(bytes);
        }
        assert_eq!(in_use.len(), 4, "{how:?}");
        let grown = in_use[3].saturating_sub(in_use[1]);
        // A link of the chain has more than 32 bytes.
        assert!(
            grown < 2_000 * 32,
            "{how:?}: {grown} bytes more after 2000 generations, {in_use:?}"
        );
    }
}
