//! Each kind of lock, at whatever node it is.

use super::world::{PROMPTLY, client, shared};
use crate::prelude::*;

/// Counts who is inside at once.
#[derive(Default)]
struct Inside(AtomicU32);

impl Inside {
    async fn visit(&self, kind: &str, most: u32) {
        let now = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= most, "{kind}: {now} at once");
        tokio::task::yield_now().await;
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const NAMES: usize = 12;
const ROUNDS: usize = 8;

/// Two clients with two tasks each, over names at all nodes.
async fn load<F: Future<Output = ()>>(work: impl Fn(LockClient, usize) -> F) {
    let cluster = shared().await;
    let (a, b) = (client(cluster).await, client(cluster).await);
    let tasks = (0..4 * NAMES).map(|n| {
        let client = if n % 2 == 0 { &a } else { &b };
        let (work, client) = (&work, client.clone());
        async move {
            for _ in 0..ROUNDS {
                work(client.clone(), n / 4).await;
            }
        }
    });
    join_all(tasks).await;
    assert!(a.admin().held().is_empty() && b.admin().held().is_empty());
}

/// So many holders of a lock of that kind at once, and no more.
async fn is_limited(kind: &str, most: u32) {
    let inside: Vec<_> = (0..NAMES).map(|_| Inside::default()).collect();
    load(async |client: LockClient, n: usize| {
        let name = format!("load:{kind}:{n}");
        let guard = match kind {
            "permits" => client.semaphore(name, most).acquire().await,
            kind => take(&client, kind, &name, LockOptions::default()).await,
        };
        let guard = guard.unwrap_or_else(|error| panic!("{kind}: {error}"));
        inside[n].visit(kind, most).await;
        guard.release().await.unwrap();
    })
    .await;
}

/// A test for each kind and the most holders at once.
macro_rules! limited {
    ($($test:ident: $kind:literal, $most:literal;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            is_limited($kind, $most).await;
        }
    )* };
}

limited! {
    mutexes_exclude: "mutex", 1;
    fair_mutexes_exclude: "fair", 1;
    permits_are_limited: "permits", 2;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_exclude() {
    let inside: Vec<_> = (0..NAMES).map(|_| Inside::default()).collect();
    let turn = AtomicU32::new(0);
    load(async |client: LockClient, n: usize| {
        let lock = client.rw_lock(format!("load:rw:{n}"));
        if turn.fetch_add(1, Ordering::SeqCst).is_multiple_of(4) {
            let guard = lock.write().await.unwrap();
            inside[n].visit("write", 1).await;
            guard.release().await.unwrap();
        } else {
            let guard = lock.read().await.unwrap();
            assert_eq!(inside[n].0.load(Ordering::SeqCst), 0, "a writer inside");
            guard.release().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn latches_open() {
    let cluster = shared().await;
    let (a, b) = (client(cluster).await, client(cluster).await);
    for name in ["latch:1", "latch:2", "{latch}:3", "latch:{4}"] {
        assert!(a.latch(name).try_set_count(2).await.unwrap());
        let waiting = lock_tests::spawn({
            let latch = b.latch(name);
            async move { latch.reached().await }
        });
        until_heard(cluster, name).await;
        assert_eq!(a.latch(name).count_down().await.unwrap(), 1);
        let start = Instant::now();
        assert_eq!(a.latch(name).count_down().await.unwrap(), 0);
        waiting.await.unwrap().unwrap();
        assert!(start.elapsed() < patience(PROMPTLY), "{:?}", start.elapsed());
    }
}

/// Waits until a waiter listens for that name.
pub(crate) async fn until_heard(cluster: &lock_tests::RedisCluster, name: &str) {
    let node = cluster.owner_of(name).await.client();
    soon!("a waiter listens", {
        let channels: Vec<String> = node.get(&["PUBSUB", "SHARDCHANNELS"]).await;
        channels.iter().any(|channel| channel.contains(name))
    });
}

#[tokio::test]
async fn a_release_wakes_the_waiter_elsewhere() {
    let cluster = shared().await;
    let (a, b) = (client(cluster).await, client(cluster).await);
    for n in 0..6 {
        let name = format!("wake:{n}");
        let guard = a.mutex(&name).lock().await.unwrap();
        let waiting = lock_tests::spawn({
            let mutex = b.mutex(&name);
            async move { mutex.lock().await }
        });
        until_heard(cluster, &name).await;
        let start = Instant::now();
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(start.elapsed() < patience(PROMPTLY), "{:?}", start.elapsed());
    }
}

/// S-9, S-10: two hundred holds, three renewals and more. A hold that has waited for half of its lease is late: on a busy machine
/// that must be longer than a pause of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_are_renewed_in_all_slots() {
    let cluster = shared().await;
    let client = client(cluster).await;
    let lease = secs(4);
    let options = watched(lease);
    let take = |n: usize| client.mutex(format!("kept:{n}")).with(options.clone()).lock();
    let guards: Vec<_> =
        join_all((0..200).map(take)).await.into_iter().collect::<Result<_, _>>().unwrap();
    let until = Instant::now() + 2 * lease;
    while Instant::now() < until {
        assert!(client.health().is_healthy(), "{:?}", client.health());
        tokio::time::sleep(ms(50)).await;
    }
    for guard in guards {
        assert!(!guard.is_lost(), "{:?}", guard.key());
        guard.release().await.unwrap();
    }
}

/// S-28.
#[tokio::test]
async fn several_names_have_to_be_in_one_slot() {
    let cluster = shared().await;
    let client = client(cluster).await;
    let error = client.multi_lock(["several:a", "several:b"]).lock().await.unwrap_err();
    let LockError::Store(problem) = error else { panic!("{error:?}") };
    assert_eq!(problem.kind(), StoreErrorKind::Config);
    assert_eq!(
        problem.to_string(),
        "the names \"several:a + several:b\" are in different slots of the cluster and cannot be taken \
         at once; give them a common hash tag, as in {order:7}:a and {order:7}:b"
    );
    let both = client.multi_lock(["{several}:a", "{several}:b"]);
    let guard = both.lock().await.unwrap();
    assert!(client.mutex("{several}:b").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(client.mutex("{several}:b").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn an_operator_sees_and_frees() {
    let cluster = shared().await;
    let (client, operator) = (client(cluster).await, client(cluster).await);
    for n in 0..6 {
        let name = format!("seen:{n}");
        let guard = client.mutex(&name).lock().await.unwrap();
        assert_eq!(operator.admin().inspect(&name).await.unwrap().kind, Some(HoldKind::Mutex));
        assert!(operator.admin().force_release(&name).await.unwrap());
        assert_eq!(operator.admin().inspect(&name).await.unwrap().kind, None);
        drop(guard);
    }
}

#[tokio::test]
async fn a_client_that_is_shut_down_leaves_nothing() {
    let cluster = lock_tests::RedisCluster::start().await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    let held = holder.mutex("left").lock().await.unwrap();
    let waiting = lock_tests::spawn({
        let mutex = waiter.mutex("left");
        async move { mutex.lock().await }
    });
    until_heard(&cluster, "left").await;
    waiter.shutdown(PROMPTLY).await;
    assert!(matches!(waiting.await.unwrap(), Err(LockError::Closed)));
    held.release().await.unwrap();
    holder.shutdown(PROMPTLY).await;
    for at in 0..3 {
        let node = cluster.node(at).client();
        soon!("no client is left", {
            let info: String = node.get(&["INFO", "clients"]).await;
            info.lines().any(|line| line == "connected_clients:1")
        });
    }
}
