//! A client, a lock and a guard as the cases see them, whose calls are async, or block.

use std::ops::Deref;

use lock_runtime::client::Shutdown;
use lock_runtime::{FairMutex, Mutex, block_on};
use tokio::task::block_in_place;

use super::threads::{self, on_a_thread};
use super::world::Kind;
use crate::prelude::{BoxFuture, *};

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
        let name = name.as_ref();
        let lock = match self.kind {
            Kind::Mutex | Kind::OneServer => Lock::Mutex(self.client.mutex(name)),
            Kind::Fair => Lock::Fair(self.client.fair_mutex(name)),
            Kind::WriteSide => Lock::WriteSide(self.client.rw_lock(name)),
            Kind::OnePermit => Lock::OnePermit(self.client.semaphore(name, 1)),
            Kind::OneName => Lock::OneName(self.client.multi_lock([name])),
        };
        match self.blocks {
            true => Lock::Blocking(Box::new(lock), self.client.clone()),
            false => lock,
        }
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
pub(crate) enum Lock {
    Mutex(Mutex),
    Fair(FairMutex),
    WriteSide(RwLock),
    OnePermit(Semaphore),
    OneName(MultiLock),
    /// With the client that shows who waits.
    Blocking(Box<Lock>, LockClient),
}

impl Lock {
    pub(crate) fn with(self, options: LockOptions) -> Self {
        match self {
            Self::Mutex(lock) => Self::Mutex(lock.with(options)),
            Self::Fair(lock) => Self::Fair(lock.with(options)),
            Self::WriteSide(lock) => Self::WriteSide(lock.with(options)),
            Self::OnePermit(lock) => Self::OnePermit(lock.with(options)),
            Self::OneName(lock) => Self::OneName(lock.with(options)),
            Self::Blocking(lock, client) => Self::Blocking(Box::new(lock.with(options)), client),
        }
    }

    pub(crate) fn lock(&self) -> BoxFuture<'static, Result<Guard, LockError>> {
        let acquire: BoxFuture<'static, Result<LockGuard, LockError>> = match self.clone() {
            Self::Mutex(lock) => Box::pin(lock.lock()),
            Self::Fair(lock) => Box::pin(lock.lock()),
            Self::WriteSide(lock) => Box::pin(lock.write()),
            Self::OnePermit(lock) => Box::pin(lock.acquire()),
            Self::OneName(lock) => Box::pin(lock.lock()),
            Self::Blocking(lock, client) => {
                let locked = on_a_thread(client, move || threads::lock(&lock));
                return Box::pin(async move { locked.await.map(Guard::Blocking) });
            }
        };
        Box::pin(async move { acquire.await.map(Guard::Async) })
    }

    pub(crate) async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        let guard = match self {
            Self::Mutex(lock) => lock.try_lock().await?,
            Self::Fair(lock) => lock.try_lock().await?,
            Self::WriteSide(lock) => lock.try_write().await?,
            Self::OnePermit(lock) => lock.try_acquire().await?,
            Self::OneName(lock) => lock.try_lock().await?,
            Self::Blocking(lock, client) => {
                let lock = lock.clone();
                let call = move || block_on(async { Box::pin(lock.try_lock()).await });
                let guard = on_a_thread(client.clone(), call).await?;
                return Ok(guard.map(|guard| Guard::Blocking(guard.into_inner())));
            }
        };
        Ok(guard.map(Guard::Async))
    }
}

/// A guard, whose calls are async or block.
#[derive(Debug)]
pub(crate) enum Guard {
    Async(LockGuard),
    Blocking(LockGuard),
}

impl Deref for Guard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        let (Self::Async(guard) | Self::Blocking(guard)) = self;
        guard
    }
}

impl Guard {
    pub(crate) fn into_inner(self) -> LockGuard {
        let (Self::Async(guard) | Self::Blocking(guard)) = self;
        guard
    }

    /// A body on a thread checks.
    pub(crate) async fn lost(&self) -> LockError {
        match self {
            Self::Async(guard) => guard.lost().await,
            Self::Blocking(guard) => loop {
                match guard.check() {
                    Ok(()) => sleep(ms(1)).await,
                    Err(lost) => return lost,
                }
            },
        }
    }

    /// A blocking body is a function that waits for `body` on its thread.
    pub(crate) async fn run<F: Future>(&self, body: F) -> Result<F::Output, LockError> {
        match self {
            Self::Async(guard) => guard.run(body).await,
            Self::Blocking(guard) => {
                let runtime = tokio::runtime::Handle::current();
                block_in_place(|| guard.run_blocking(|_| runtime.block_on(body)))
            }
        }
    }

    pub(crate) async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        match self {
            Self::Async(guard) => guard.extend(lease).await,
            Self::Blocking(guard) => block_in_place(|| block_on(guard.extend(lease))),
        }
    }

    pub(crate) async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Async(guard) => guard.release().await,
            Self::Blocking(guard) => block_in_place(|| guard.blocking_release()),
        }
    }
}
