//! Stores of every sort, and what a listener receives.

use lock_runtime::store::{ClusterStore, Listening, NamesCursor};

use crate::prelude::*;

/// A channel that no lock uses.
pub(crate) const CHANNEL: &str = "lock_runtime:survey";

/// How long to look on that something does not happen.
pub(crate) const QUIET: Duration = ms(300);

/// What came on a channel since it was made.
pub(crate) struct Inbox {
    pub(crate) listening: Listening,
    messages: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Inbox {
    pub(crate) fn of(store: &dyn Store, channel: &str) -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        let on_message = Arc::new(move |message: &[u8]| drop(sender.send(message.to_vec())));
        Self { listening: store.listen(channel, on_message), messages }
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Vec<u8> {
        let next = timeout(SOON, self.messages.recv()).await;
        next.expect("a message comes").expect("it is listened to")
    }

    /// What has come so far.
    pub(crate) fn rest(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.messages.try_recv().ok()).collect()
    }
}

/// Publishes until the inbox has got a message, and leaves nothing in it.
pub(crate) async fn until_delivered(store: &dyn Store, inbox: &mut Inbox) {
    soon!("a message comes", {
        let _ = store.publish(CHANNEL, b"again", secs(1)).await;
        sleep(ms(20)).await;
        !inbox.rest().is_empty()
    });
    // What was still on its way.
    store.publish(CHANNEL, b"last", SOON).await.unwrap();
    while inbox.next().await != b"last" {}
}

/// All names that begin with the prefix, as often as they are listed, in no order; and how many pages there were.
pub(crate) async fn pages(store: &dyn Store, prefix: &str) -> (Vec<String>, usize) {
    let (mut names, mut next, mut pages) = (Vec::new(), Some(NamesCursor::start()), 0);
    while let Some(from) = next {
        let page = store.names(prefix, from, SOON).await.unwrap();
        names.extend(page.names.iter().map(|name| name.as_str().to_owned()));
        next = page.next;
        pages += 1;
    }
    (names, pages)
}

/// The same as a set.
pub(crate) async fn names(store: &dyn Store, prefix: &str) -> BTreeSet<String> {
    pages(store, prefix).await.0.into_iter().collect()
}

pub(crate) fn set<T: Into<String>>(names: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

pub(crate) fn key(name: &str) -> LockKey {
    LockKey::new(name).unwrap()
}

/// Acquires a lock for a new owner, for as long as any test takes; if it is busy, the owner waits as long.
pub(crate) async fn acquire(store: &dyn Store, target: &Arc<Target>) -> Option<OwnerId> {
    let owner = OwnerId::new(&client_id(), 1, 1);
    let request = AcquireRequest::new(Arc::clone(target), owner.clone(), secs(300), SOON);
    let place = matches!(target.kind(), HoldKind::Fair | HoldKind::Read | HoldKind::Write)
        .then_some(secs(300));
    let reply = store.acquire(request.with_place(place)).await.unwrap();
    matches!(reply, AcquireReply::Granted(_)).then_some(owner)
}

/// The same for all of them at once, which are free.
pub(crate) async fn acquire_all(store: &dyn Store, targets: &[Arc<Target>]) -> Vec<OwnerId> {
    let taken = join_all(targets.iter().map(|target| acquire(store, target))).await;
    taken.into_iter().map(|owner| owner.expect("it is free")).collect()
}

/// Stores of two processes on the same locks, and the servers, which end with it.
pub(crate) struct World([Box<dyn Store>; 2], #[expect(dead_code)] Box<dyn std::any::Any>);

impl World {
    pub(crate) async fn memory() -> Self {
        let store = MemoryStore::new();
        Self([Box::new(store.peer()), Box::new(store)], Box::new(()))
    }

    pub(crate) async fn redis() -> Self {
        let server = RedisServer::start().await;
        let connect = async || Box::new(RedisStore::connect(&server.url()).await.unwrap());
        Self([connect().await, connect().await], Box::new(server))
    }

    pub(crate) async fn cluster() -> Self {
        let cluster = RedisCluster::start().await;
        let connect = async || Box::new(ClusterStore::connect(cluster.urls()).await.unwrap());
        Self([connect().await, connect().await], Box::new(cluster))
    }

    pub(crate) fn two(&self) -> (&dyn Store, &dyn Store) {
        (&*self.0[0], &*self.0[1])
    }
}

/// Cases for every store.
macro_rules! on_every_store {
    ($($case:ident),* $(,)?) => {
        mod memory {
            crate::operations::world::on_every_store!(@ memory $($case)*);
        }

        mod redis {
            crate::operations::world::on_every_store!(@ redis $($case)*);
        }

        mod cluster {
            crate::operations::world::on_every_store!(@ cluster $($case)*);
        }
    };
    (@ $store:ident $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            super::$case(&crate::operations::world::World::$store().await).await;
        }
    )*};
}
pub(crate) use on_every_store;
