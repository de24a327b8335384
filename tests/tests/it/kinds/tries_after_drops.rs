//! A try right after a drop waits for the release that is under way (S-14, S-33).

use crate::prelude::*;
use crate::support::kinds::{take_one_or_several, two_in_memory};

const ROUNDS: usize = 60;

/// A client of each store, the second behind a server.
async fn clients(server: &RedisServer) -> [LockClient; 2] {
    [two_in_memory().0, connect(server).await]
}

/// Takes the lock without a wait.
async fn try_one(client: &LockClient, kind: &str, name: &str) -> Result<LockGuard, LockError> {
    let never = waits(Wait::None);
    take_one_or_several(client, kind, name, never).await
}

/// A lock of several and each of its locks, in either order of dropping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_locks_that_were_dropped_is_free_for_the_next_try() {
    let server = RedisServer::start().await;
    for client in clients(&server).await {
        let kinds = [("multi", "mutex"), ("several fair", "fair"), ("several write", "write")];
        for (several, one) in kinds {
            for round in 0..ROUNDS {
                let all = try_one(&client, several, several).await;
                drop(all.unwrap_or_else(|error| panic!("{several}, round {round}: {error:?}")));
                let part = format!("{several}-b");
                let part = try_one(&client, one, &part).await;
                drop(part.unwrap_or_else(|error| panic!("{one}, round {round}: {error:?}")));
            }
        }
    }
}

/// Locks of two servers, each by its own client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_two_clients_that_were_dropped_are_free_for_the_next_try() {
    let (first, second) = (RedisServer::start().await, RedisServer::start().await);
    let (one, two) = (connect(&first).await, connect(&second).await);
    let both = || MultiLock::of([one.mutex("a").into(), two.mutex("b").into()]);
    for round in 0..ROUNDS {
        let free = |tried: Result<Option<LockGuard>, LockError>| {
            drop(tried.unwrap().unwrap_or_else(|| panic!("busy in round {round}")));
        };
        free(both().try_lock().await);
        free(both().try_lock().await);
        free(one.mutex("a").try_lock().await);
        free(both().try_lock().await);
        free(two.mutex("b").try_lock().await);
    }
}
