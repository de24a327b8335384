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

/// Stores of several processes on the same locks. The servers end with it.
pub(crate) struct World {
    pub(crate) stores: Vec<Box<dyn Store>>,
    _server: Option<RedisServer>,
    _cluster: Option<RedisCluster>,
}

impl World {
    pub(crate) fn in_memory() -> Self {
        let store = MemoryStore::new();
        let stores = vec![Box::new(store.peer()) as Box<dyn Store>, Box::new(store)];
        Self { stores, _server: None, _cluster: None }
    }

    pub(crate) async fn on_redis() -> Self {
        let server = RedisServer::start().await;
        let connect = async || RedisStore::connect(&server.url()).await.unwrap();
        let stores = vec![Box::new(connect().await) as Box<dyn Store>, Box::new(connect().await)];
        Self { stores, _server: Some(server), _cluster: None }
    }

    pub(crate) async fn in_a_cluster() -> Self {
        let cluster = RedisCluster::start().await;
        let connect = async || ClusterStore::connect([cluster.node(0).url()]).await.unwrap();
        let stores = vec![Box::new(connect().await) as Box<dyn Store>, Box::new(connect().await)];
        Self { stores, _server: None, _cluster: Some(cluster) }
    }

    pub(crate) fn two(&self) -> (&dyn Store, &dyn Store) {
        (&*self.stores[0], &*self.stores[1])
    }
}

/// Cases for every store.
macro_rules! on_every_store {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&crate::operations::world::World::in_memory()).await;
            })*
        }

        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(&crate::operations::world::World::on_redis().await).await;
            })*
        }

        mod cluster {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(&crate::operations::world::World::in_a_cluster().await).await;
            })*
        }
    };
}
pub(crate) use on_every_store;
