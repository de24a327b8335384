//! The blocking face in place of the async one: each call that waits for a lock is made on a thread of its own.

use std::thread;

use async_trait::async_trait;
use lock_runtime::blocking;
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use super::peer::Peer;
use super::world::{Kind, Memory, Redis, World};
use crate::prelude::*;

/// How many waiters make a long line here: more than one block of tokens serves, and fewer than elsewhere, for each is a
/// thread that lists all others as it joins.
const CROWD: usize = 300;

/// A world whose clients are blocking.
pub(crate) struct Threads<W>(pub(crate) W);

#[async_trait(?Send)]
impl World for Threads<Memory> {
    async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        let Memory(store, kind) = &self.0;
        let client = match kind {
            Kind::OneServer => {
                let store: Arc<dyn Store> = Arc::new(store.peer());
                let quorum = Quorum::builder().without_restart_guard().client(builder).blocking();
                quorum.stores([store]).unwrap().client()
            }
            _ => builder.blocking().store(store.peer()).unwrap(),
        };
        Peer::of_blocking(client, *kind)
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        self.0.holders(name).await
    }

    async fn is_subscribed(&self, name: &str) -> bool {
        self.0.is_subscribed(name).await
    }

    fn crowd(&self) -> usize {
        CROWD
    }
}

#[async_trait(?Send)]
impl World for Threads<Redis> {
    async fn client_with(&self, builder: LockClientBuilder) -> Peer {
        let Redis { server, kind } = &self.0;
        let url = server.url();
        let client = block_in_place(|| match kind {
            Kind::OneServer => {
                let quorum = Quorum::builder().without_restart_guard().client(builder).blocking();
                quorum.connect([url]).unwrap().client()
            }
            _ => builder.blocking().connect(&url).unwrap(),
        });
        Peer::of_blocking(client, *kind)
    }

    async fn holders(&self, name: &str) -> Vec<(String, u32)> {
        self.0.holders(name).await
    }

    async fn is_subscribed(&self, name: &str) -> bool {
        self.0.is_subscribed(name).await
    }

    fn crowd(&self) -> usize {
        CROWD
    }
}

/// A blocking lock of any kind that one at a time can have.
#[derive(Clone)]
pub(crate) enum BlockingLock {
    Mutex(blocking::Mutex),
    Fair(blocking::FairMutex),
    WriteSide(blocking::RwLock),
    OnePermit(blocking::Semaphore),
    OneName(blocking::MultiLock),
}

impl BlockingLock {
    pub(super) fn new(client: &blocking::LockClient, kind: Kind, name: &str) -> Self {
        match kind {
            Kind::Mutex | Kind::OneServer => Self::Mutex(client.mutex(name)),
            Kind::Fair => Self::Fair(client.fair_mutex(name)),
            Kind::WriteSide => Self::WriteSide(client.rw_lock(name)),
            Kind::OnePermit => Self::OnePermit(client.semaphore(name, NonZeroU32::MIN)),
            Kind::OneName => Self::OneName(client.multi_lock([name])),
        }
    }

    pub(super) fn with(self, options: LockOptions) -> Self {
        match self {
            Self::Mutex(lock) => Self::Mutex(lock.with(options)),
            Self::Fair(lock) => Self::Fair(lock.with(options)),
            Self::WriteSide(lock) => Self::WriteSide(lock.with(options)),
            Self::OnePermit(lock) => Self::OnePermit(lock.with(options)),
            Self::OneName(lock) => Self::OneName(lock.with(options)),
        }
    }

    pub(super) fn lock(&self) -> Result<blocking::LockGuard, LockError> {
        match self {
            Self::Mutex(lock) => lock.lock(),
            Self::Fair(lock) => lock.lock(),
            Self::WriteSide(lock) => lock.write(),
            Self::OnePermit(lock) => lock.acquire().map(Into::into),
            Self::OneName(lock) => lock.lock(),
        }
    }

    pub(super) fn try_lock(&self) -> Result<Option<blocking::LockGuard>, LockError> {
        match self {
            Self::Mutex(lock) => lock.try_lock(),
            Self::Fair(lock) => lock.try_lock(),
            Self::WriteSide(lock) => lock.try_write(),
            Self::OnePermit(lock) => Ok(lock.try_acquire()?.map(Into::into)),
            Self::OneName(lock) => lock.try_lock(),
        }
    }
}

/// Calls `call` on a thread of its own, once the result is polled, inside of the holds around that poll. The first poll
/// waits until the call has joined the queue, as the cases expect of an acquire. If another task leaves the queue at the same
/// time, that may take until the next one joins or leaves, at most for the bound.
pub(super) async fn on_a_thread<T: Send + 'static>(
    client: LockClient,
    call: impl FnOnce() -> T + Send + 'static,
) -> T {
    // The waiter that asks the store is missing from the list for moments.
    let listed = || client.waiting().len();
    let looks = (0..4).map(|_| {
        thread::sleep(Duration::from_micros(50));
        listed()
    });
    let waited = looks.max().unwrap_or_default();
    let start = tokio::time::Instant::now();
    // A re-entry that waits for others inside of its hold is not listed.
    let bound = if LockGuard::current().is_some() { ms(100) } else { SOON };
    let (done, mut outcome) = oneshot::channel();
    let call = blocking::inherit(call);
    thread::spawn(move || done.send(call()));
    // Other tasks go on meanwhile: the one that holds the lock may have to be polled to release it.
    let early = block_in_place(|| {
        while start.elapsed() < bound && listed() <= waited {
            if let Ok(outcome) = outcome.try_recv() {
                return Some(outcome);
            }
            thread::sleep(Duration::from_micros(200));
        }
        None
    });
    match early {
        Some(outcome) => outcome,
        None => outcome.await.expect("the thread does not panic"),
    }
}
