//! Waiters that only a message or a reconnect can wake: what they do by themselves comes later than a test ends.

use tokio::task::JoinHandle;

use crate::prelude::*;

/// More than a test takes.
const LONG: Duration = secs(120);

/// A waiter for a lock of each kind that is exclusive.
pub(crate) struct Idle {
    names: Vec<String>,
    waiting: Vec<JoinHandle<LockGuard>>,
    _held: Vec<LockGuard>,
}

impl Idle {
    /// Waiters of a client with this configuration. Another client holds what they wait for.
    pub(crate) async fn start(config: &str, world: &impl World) -> Self {
        let connect = async || {
            let builder = LockClient::builder().poll_cap(LONG).waiter_lease(LONG);
            let config = LockConfig::from_toml(config).unwrap();
            builder.connect_config(config).await.unwrap()
        };
        let (holder, client) = (connect().await, connect().await);
        let mut all = Self { names: Vec::new(), waiting: Vec::new(), _held: Vec::new() };
        for kind in EXCLUSIVE {
            let name = format!("idle {kind}");
            all._held.push(take(&holder, kind, &name, watched(LONG)).await.unwrap());
            let (client, lock) = (client.clone(), name.clone());
            let waits = async move { take(&client, kind, &lock, waits(LONG)).await.unwrap() };
            all.waiting.push(tokio::spawn(waits));
            eventually(SOON, &format!("a waiter listens for {name}"), async || {
                let servers = world.servers().into_iter().map(RedisServer::client);
                let heard = servers.map(async |raw| listeners(&raw, &name).await);
                join_all(heard).await.iter().sum::<usize>() > 0
            })
            .await;
            all.names.push(name);
        }
        // Each asks once more when it has subscribed, which no server shows. One that asks later than this finds its lock
        // deleted, and shows nothing.
        sleep(ANSWER / 2).await;
        all
    }

    /// Deletes the locks: no message says so. At least one waiter sleeps on.
    pub(crate) async fn delete_locks(&self, world: &impl World) {
        for name in &self.names {
            let mut deleted = 0;
            for server in world.servers() {
                // Another node of a cluster says where the name is.
                let answer = server.client().try_cmd(&["DEL", name]).await;
                deleted += usize::from(answer.is_ok_and(|it| it == redis::Value::Int(1)));
            }
            assert_eq!(deleted, 1, "{name} was not held");
        }
        assert!(self.waiting.iter().any(|waiter| !waiter.is_finished()), "all were told");
    }

    /// Waits until each has its lock.
    pub(crate) async fn all_acquire(self) {
        for (name, waiter) in self.names.iter().zip(self.waiting) {
            let acquired = timeout(SOON, waiter).await;
            let guard = acquired.unwrap_or_else(|_| panic!("{name} was not asked for")).unwrap();
            guard.release().await.unwrap();
        }
    }
}
