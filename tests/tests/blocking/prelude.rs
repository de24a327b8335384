//! Names, durations and servers for code that runs outside of every runtime.

pub(crate) use std::collections::BTreeSet;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::thread;
pub(crate) use std::time::Duration;

pub(crate) use lock_runtime::error::LossCause;
pub(crate) use lock_runtime::options::OnReleaseLost;
pub(crate) use lock_runtime::scope::inherit_blocking;
pub(crate) use lock_runtime::{
    Lease, LockClient, LockClientBuilder, LockError, LockGuard, LockOptions, Wait, block_on,
    distributed_lock,
};
pub(crate) use lock_tests::eventually::eventually_blocking;
pub(crate) use lock_tests::{Proxy, RedisServer, Worker, patience};
pub(crate) use tokio::runtime::{Builder, Handle, Runtime};
pub(crate) use tokio::time::Instant;

/// More than anything that has to happen takes on a busy machine, and less than a lease of 30 s.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A lease that is renewed in time on a busy machine, too.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// A runtime for the test tools, and a server. Tests call the code under test outside of it.
pub(crate) struct Tools {
    // Before the runtime, in which it ends.
    pub(crate) server: RedisServer,
    pub(crate) runtime: Runtime,
}

impl Tools {
    pub(crate) fn start() -> Self {
        let runtime = runtime();
        let server = runtime.block_on(RedisServer::start());
        Self { server, runtime }
    }

    pub(crate) fn client(&self) -> LockClient {
        LockClient::builder().connect_blocking(&self.server.url()).unwrap()
    }

    /// A proxy before the server.
    pub(crate) fn proxy(&self) -> Proxy {
        self.runtime.block_on(Proxy::start(self.server.port()))
    }

    /// The connections to the server, but that of the test, by number.
    pub(crate) fn connections(&self) -> BTreeSet<u64> {
        let client = self.server.client();
        let (own, list): (u64, String) = self.runtime.block_on(async {
            (client.get(&["CLIENT", "ID"]).await, client.get(&["CLIENT", "LIST"]).await)
        });
        let number = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
        list.lines().filter_map(number).filter(|number| *number != own).collect()
    }

    /// Whether the server has a hold of this lock.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        let held: u64 = self.runtime.block_on(self.server.client().get(&["EXISTS", name]));
        held == 1
    }
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) fn leased(lease: Lease) -> LockOptions {
    LockOptions::new().lease(lease)
}

/// Waits until the lock can be acquired, and releases it.
pub(crate) fn free_soon(client: &LockClient, name: &str) {
    client.mutex(name).wait(SOON).blocking_lock().unwrap().blocking_release().unwrap();
}
