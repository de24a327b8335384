//! A server and its line, as its keys show it.

pub(crate) use crate::prelude::*;
pub(crate) use crate::support::fair_line::{is_ours, own_channel, waiter_channel as channel};

/// Bounds what takes a few round trips, on a busy machine.
pub(crate) const PROMPTLY: Duration = secs(5);

/// So long that nothing happens in a test because it is over.
pub(crate) const NEVER: Duration = secs(3600);

pub(crate) type Waiting = JoinHandle<Result<LockGuard, LockError>>;

pub(crate) struct World {
    pub(crate) server: RedisServer,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self { server: RedisServer::start().await }
    }

    pub(crate) async fn client(&self) -> LockClient {
        LockClient::connect(&self.server.url()).await.unwrap()
    }

    /// A client whose waiters keep their places for so long.
    pub(crate) async fn client_with_places(&self, waiter_lease: Duration) -> LockClient {
        let builder = LockClient::builder().waiter_lease(waiter_lease);
        builder.connect(&self.server.url()).await.unwrap()
    }

    /// A client that acts only when told: neither polls nor refreshes happen during a test.
    pub(crate) async fn client_that_only_listens(&self) -> LockClient {
        let builder = LockClient::builder().waiter_lease(NEVER).poll_cap(NEVER);
        builder.connect(&self.server.url()).await.unwrap()
    }

    /// Who is in line, the first first.
    pub(crate) async fn queue(&self, name: &str) -> Vec<String> {
        let key = format!("redisson_lock_queue:{{{name}}}");
        self.server.client().get(&["LRANGE", &key, "0", "-1"]).await
    }

    /// When a place ends if no client refreshes it, in milliseconds of the server's time.
    pub(crate) async fn score(&self, name: &str, owner: &str) -> Option<f64> {
        let key = format!("redisson_lock_timeout:{{{name}}}");
        self.server.client().get(&["ZSCORE", &key, owner]).await
    }

    /// The server's time in milliseconds.
    pub(crate) async fn now(&self) -> f64 {
        let (secs, micros): (f64, f64) = self.server.client().get(&["TIME"]).await;
        secs.mul_add(1000.0, micros / 1000.0)
    }

    /// Puts waiters in line that no client has, each until its place ends.
    pub(crate) async fn has_in_line(&self, name: &str, waiters: &[(&str, f64)]) {
        let key = |which| format!("redisson_lock_{which}:{{{name}}}");
        let (queue, ends) = (key("queue"), key("timeout"));
        for (owner, end) in waiters {
            self.server.client().cmd(&["RPUSH", &queue, owner]).await;
            self.server.client().cmd(&["ZADD", &ends, &end.round().to_string(), owner]).await;
        }
    }

    /// Whose hold it is.
    pub(crate) async fn holder(&self, name: &str) -> Option<String> {
        let hash = self.server.client().hgetall(name).await;
        hash.into_keys().find(|field| field != "mode")
    }

    /// How often somebody has asked for a place, alone or with others in one script.
    pub(crate) async fn asked(&self) -> u64 {
        self.server.command_calls().await.get("zadd").copied().unwrap_or_default()
    }

    /// A task that waits, and its owner. When this returns, the task is in line and listens. It has asked once if its
    /// process listened before, else again after it subscribed (S-15). Behind a client of Redisson it listens to a channel
    /// of its own as well.
    pub(crate) async fn waiter(&self, client: &LockClient, name: &str) -> (Waiting, String) {
        let (before, asked) = (self.queue(name).await, self.asked().await);
        let listened =
            self.server.pubsub_numsub(&channel(name, &client.id().to_string())).await > 0;
        let waiting = lock_tests::spawn(client.fair_mutex(name).lock());
        let mut owner = String::new();
        soon!("the waiter is in line", {
            let new = self.queue(name).await.into_iter().find(|owner| !before.contains(owner));
            owner = new.unwrap_or_default();
            !owner.is_empty()
        });
        self.server.wait_for_subscribers(&channel(name, &owner), 1).await;
        let first = match self.holder(name).await {
            Some(holder) => Some(holder),
            None => self.queue(name).await.into_iter().next(),
        };
        let behind_redisson = first.is_some_and(|first| !is_ours(&first));
        if behind_redisson {
            self.server.wait_for_subscribers(&own_channel(name, &owner), 1).await;
        }
        let asks = if listened && !behind_redisson { 1 } else { 2 };
        soon!("it has asked since", self.asked().await >= asked + asks);
        (waiting, owner)
    }

    /// A task that waits behind a holder, and that holder's guard.
    pub(crate) async fn waiter_behind_a_holder(
        &self,
        client: &LockClient,
        name: &str,
    ) -> (Waiting, LockGuard) {
        let holder = client.fair_mutex(name).lock().await.unwrap();
        let (waiting, _) = self.waiter(client, name).await;
        (waiting, holder)
    }

    /// Waits until nothing of the lock is left but its fencing counter.
    pub(crate) async fn nothing_left(&self, name: &str) {
        nothing_left(&self.server, name).await;
    }
}

/// The guard of a waiter that has been told.
pub(crate) async fn granted(waiting: Waiting) -> LockGuard {
    timeout(patience(PROMPTLY), waiting).await.expect("not told").unwrap().unwrap()
}
