//! A client, a lock and a guard as the cases see them, whose calls are async, or block.

use std::ops::Deref;

use lock_runtime::acquire::Acquire;
use lock_runtime::block_on;
use lock_runtime::client::Shutdown;
use tokio::task::block_in_place;

use super::threads::on_a_thread;
use super::world::Kind;
use crate::prelude::*;

/// A client whose mutexes are of the kind under test.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) client: LockClient,
    pub(crate) kind: Kind,
    /// True if its calls block.
    pub(crate) blocks: bool,
}

impl Deref for Peer {
    type Target = LockClient;

    fn deref(&self) -> &LockClient {
        &self.client
    }
}

impl Peer {
    pub(crate) fn mutex(&self, name: impl AsRef<str>) -> Lock {
        let (peer, options) = (self.clone(), LockOptions::new());
        Lock { peer, name: name.as_ref().to_owned(), options }
    }

    pub(crate) async fn shutdown(&self, grace: Duration) -> Shutdown {
        match self.blocks {
            false => self.client.shutdown(grace).await,
            true => block_in_place(|| self.client.blocking_shutdown(grace)).unwrap(),
        }
    }
}

/// A lock of any kind that one at a time can have.
#[derive(Clone)]
pub(crate) struct Lock {
    peer: Peer,
    name: String,
    options: LockOptions,
}

/// Calls this method of the lock; that of a read/write lock and of a semaphore have other names.
macro_rules! call {
    ($lock:ident.$method:ident, $write:ident, $acquire:ident) => {{
        let Lock { peer: Peer { client, kind, .. }, name, options } = $lock;
        let options = options.clone();
        match kind {
            Kind::Mutex | Kind::OneServer => client.mutex(name).with(options).$method(),
            Kind::Fair => client.fair_mutex(name).with(options).$method(),
            Kind::WriteSide => client.rw_lock(name).with(options).$write(),
            Kind::OnePermit => client.semaphore(name, 1).with(options).$acquire(),
            Kind::OneName => client.multi_lock([name]).with(options).$method(),
        }
    }};
}

impl Lock {
    pub(crate) fn with(self, options: LockOptions) -> Self {
        Self { options: options.or(self.options), ..self }
    }

    pub(crate) fn lock(&self) -> BoxFuture<'static, Result<Guard, LockError>> {
        let (lock, blocks) = (self.clone(), self.peer.blocks);
        if blocks {
            let locked = on_a_thread(self.peer.client.clone(), move || {
                let lock = &lock;
                call!(lock.blocking_lock, blocking_write, blocking_acquire)
            });
            return locked.map(move |locked| Ok(Guard { guard: locked?, blocks })).boxed();
        }
        let acquire: Acquire = call!(self.lock, write, acquire);
        acquire.map(move |guard| Ok(Guard { guard: guard?, blocks })).boxed()
    }

    pub(crate) async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        let blocks = self.peer.blocks;
        let attempt = call!(self.try_lock, try_write, try_acquire);
        let guard = match blocks {
            true => on_a_thread(self.peer.client.clone(), move || block_on(attempt)).await?,
            false => attempt.await?,
        };
        Ok(guard.map(|guard| Guard { guard, blocks }))
    }
}

/// A guard, whose calls are async or block.
#[derive(Debug)]
pub(crate) struct Guard {
    guard: LockGuard,
    blocks: bool,
}

impl Deref for Guard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl Guard {
    pub(crate) fn into_inner(self) -> LockGuard {
        self.guard
    }

    /// A body on a thread checks.
    pub(crate) async fn lost(&self) -> LockError {
        if !self.blocks {
            return self.guard.lost().await;
        }
        loop {
            match self.guard.check() {
                Ok(()) => sleep(ms(1)).await,
                Err(lost) => return lost,
            }
        }
    }

    /// A blocking body is a function that waits for `body` on its thread.
    pub(crate) async fn run<F: Future>(&self, body: F) -> Result<F::Output, LockError> {
        if !self.blocks {
            return self.guard.run(body).await;
        }
        let runtime = tokio::runtime::Handle::current();
        block_in_place(|| self.guard.run_blocking(|_| runtime.block_on(body)))
    }

    pub(crate) async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        match self.blocks {
            false => self.guard.extend(lease).await,
            true => block_in_place(|| block_on(self.guard.extend(lease))),
        }
    }

    pub(crate) async fn release(self) -> Result<(), LockError> {
        match self.blocks {
            false => self.guard.release().await,
            true => block_in_place(|| self.guard.blocking_release()),
        }
    }
}
