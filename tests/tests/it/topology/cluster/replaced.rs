//! What a client makes of answers about slots that have gone to another node meanwhile.

use std::future::ready;

use lock_runtime::store::ClusterStore;
use lock_tests::ScriptedServer;
use lock_tests::scripted_server::{Command, Scripted};

use crate::prelude::*;

/// A name in the first half of the slots, and one in the second.
const FIRST: &str = "bar";
const SECOND: &str = "foo";

/// What every node says of the slots.
type Slots = Arc<Mutex<Vec<(u16, u16, u16)>>>;

/// A node, and the scripts that it was to run.
struct Node {
    server: ScriptedServer,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Node {
    /// `answer` answers the script of that number, counted from one, and knows whether it releases.
    async fn start(
        slots: &Slots,
        answer: impl Fn(usize, bool) -> BoxFuture<'static, Scripted> + Send + Sync + 'static,
    ) -> Self {
        let (slots, asked) = (Arc::clone(slots), Arc::<Mutex<Vec<Vec<String>>>>::default());
        let scripts = Arc::clone(&asked);
        let server = ScriptedServer::start(move |Command { words, .. }| match &*words[0] {
            "CLUSTER" => Box::pin(ready(Scripted::Bytes(answer_of(&slots.lock().unwrap())))),
            "EVALSHA" => {
                // An acquire has two keys, and a release one.
                let releases = words[2] == "1";
                scripts.lock().unwrap().push(words);
                answer(scripts.lock().unwrap().len(), releases)
            }
            _ => Box::pin(ready(Scripted::Usual)),
        });
        Self { server: server.await, asked }
    }

    /// How many scripts of that name it was to run.
    fn scripts(&self, name: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|words| words.iter().any(|word| word == name)).count()
    }

    fn redirects_here(&self, slot: u16) -> Scripted {
        Scripted::Error(format!("MOVED {slot} 127.0.0.1:{}", self.server.port()))
    }
}

fn answer_of(slots: &[(u16, u16, u16)]) -> String {
    let ranges = slots.iter().map(|(first, last, port)| {
        format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$2\r\nid\r\n")
    });
    format!("*{}\r\n{}", slots.len(), ranges.collect::<String>())
}

fn always(answer: &'static str) -> impl Fn(usize, bool) -> BoxFuture<'static, Scripted> {
    move |_, _| Box::pin(ready(Scripted::Script(answer.to_owned())))
}

const GRANT: &str = "1125899906842624";

fn target(name: &str) -> Arc<Target> {
    Target::mutex(LockKey::new(name).unwrap())
}

async fn acquires(store: &ClusterStore, name: &str) {
    let owner = OwnerId::new(&client_id(), 1, 1);
    let granted = store.acquire(AcquireRequest::new(target(name), owner, SOON, SOON)).await;
    assert!(matches!(granted, Ok(AcquireReply::Granted(_))), "{granted:?}");
}

fn release(name: &str) -> ReleaseRequest {
    ReleaseRequest::new(target(name), OwnerId::new(&client_id(), 1, 1), SOON)
}

/// S-19: a master that was stopped and replaced releases on its own copy. The release counts once the new owner of the
/// slot has it too, which may not have the hold any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_by_a_replaced_master_is_made_at_the_new_one() {
    for answer in [":0", ":-1"] {
        let slots = Slots::default();
        let resumed = Arc::new(Notify::new());
        let new = Node::start(&slots, move |n, releases| {
            always(if releases { answer } else { GRANT })(n, releases)
        });
        let new = Arc::new(new.await);
        let stopped = Node::start(&slots, {
            let resumed = Arc::clone(&resumed);
            move |_, _| {
                let resumed = Arc::clone(&resumed);
                Box::pin(async move {
                    resumed.notified().await;
                    Scripted::Script(":0".to_owned())
                })
            }
        });
        let stopped = stopped.await;
        let other = Node::start(&slots, {
            let new = Arc::clone(&new);
            move |_, _| Box::pin(ready(new.redirects_here(12_182)))
        });
        let other = other.await;
        *slots.lock().unwrap() =
            vec![(0, 8_191, stopped.server.port()), (8_192, 16_383, other.server.port())];
        let store = Arc::new(ClusterStore::connect([other.server.url()]).await.unwrap());
        let releasing = lock_tests::spawn({
            let store = Arc::clone(&store);
            async move { store.release(release(FIRST)).await }
        });
        soon!("the release is under way", stopped.scripts(FIRST) == 1);
        *slots.lock().unwrap() = vec![(0, 16_383, new.server.port())];
        acquires(&store, SECOND).await;
        soon!("the client knows the new owner", {
            store
                .addresses()
                .iter()
                .all(|address| !address.ends_with(&stopped.server.port().to_string()))
        });
        resumed.notify_one();
        let released = timeout(SOON, releasing).await.expect("hung").unwrap();
        assert!(matches!(released, Ok(ReleaseReply::Released { .. })), "{released:?}");
        assert!(new.scripts(FIRST) > 0, "the new owner has not heard of it");
    }
}

/// S-19: nor does a late answer count by itself: the node may have been stopped, and replaced without this client's
/// knowledge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_is_made_once_more() {
    let slots = Slots::default();
    let node = Node::start(&slots, |n, _| {
        Box::pin(async move {
            match n {
                1 => {
                    sleep(ms(200)).await;
                    Scripted::Script(":0".to_owned())
                }
                _ => Scripted::Script(":-1".to_owned()),
            }
        })
    });
    let node = node.await;
    *slots.lock().unwrap() = vec![(0, 16_383, node.server.port())];
    let store = ClusterStore::connect([node.server.url()]).await.unwrap();
    let released = store.release(release(FIRST)).await;
    assert!(matches!(released, Ok(ReleaseReply::Released { .. })), "{released:?}");
    assert!(node.scripts(FIRST) >= 2, "it is not asked again");
}

/// A node that was just named by a redirection stays the owner, whatever a node says that has not heard of that yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_view_does_not_undo_a_redirection() {
    let slots = Slots::default();
    let new = Arc::new(Node::start(&slots, always(GRANT)).await);
    let old = Node::start(&slots, {
        let new = Arc::clone(&new);
        move |_, _| Box::pin(ready(new.redirects_here(5_061)))
    });
    let old = old.await;
    *slots.lock().unwrap() = vec![(0, 16_383, old.server.port())];
    let store = ClusterStore::connect([old.server.url()]).await.unwrap();
    let start = Instant::now();
    for _ in 0..5 {
        acquires(&store, FIRST).await;
        sleep(ms(80)).await;
    }
    // After a second, what the nodes say counts again.
    if start.elapsed() < ms(900) {
        assert!(old.scripts(FIRST) == 1 && new.scripts(FIRST) >= 5, "the older view counts");
    }
}
