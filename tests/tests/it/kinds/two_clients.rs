//! Two clients of one server in one process: a lock that both name is one lock (S-6, S-28).

use lock_runtime::acquire::Acquire;

use crate::prelude::*;
use crate::support::kinds::two_in_memory;

/// Shorter than any `wait` here: a call that waits for itself fails long before.
const AT_ONCE: Duration = secs(10);

/// The same server under another address.
fn by_name(server: &RedisServer) -> String {
    server.url().replace("127.0.0.1", "localhost")
}

async fn connected(url: &str) -> LockClient {
    LockClient::connect(url).await.unwrap()
}

/// Two clients of each store. Of the server, each under an address of its own.
async fn pairs(server: &RedisServer) -> [(LockClient, LockClient); 2] {
    assert_ne!(server.url(), by_name(server));
    [two_in_memory(), (connected(&server.url()).await, connected(&by_name(server)).await)]
}

async fn would_deadlock<T: std::fmt::Debug>(
    what: &str,
    acquire: impl Future<Output = Result<T, LockError>>,
) {
    let failed = timeout(AT_ONCE, acquire).await;
    let failed = failed.unwrap_or_else(|_| panic!("{what} waits for itself"));
    assert!(matches!(failed, Err(LockError::WouldDeadlock { .. })), "{what}: {failed:?}");
}

fn two_of(client: &LockClient, name: &str) -> Semaphore {
    client.semaphore(name, 2)
}

/// Each kind of lock, once by each of two clients.
fn twice(one: &LockClient, two: &LockClient) -> [(&'static str, Vec<MultiMember>); 7] {
    let each = |member: fn(&LockClient) -> MultiMember| vec![member(one), member(two)];
    [
        ("mutex", each(|it| it.mutex("mutex").into())),
        ("fair", each(|it| it.fair_mutex("fair").into())),
        ("read", each(|it| MultiMember::read(&it.rw_lock("read")))),
        ("write", each(|it| MultiMember::write(&it.rw_lock("write")))),
        ("permits", each(|it| two_of(it, "permits").into())),
        // The mutexes of one client are acquired together.
        (
            "several",
            [one.mutex("a"), one.mutex("b"), two.mutex("b"), two.mutex("c")]
                .map(MultiMember::from)
                .into(),
        ),
        (
            "sides",
            vec![
                MultiMember::read(&one.rw_lock("sides")),
                MultiMember::write(&two.rw_lock("sides")),
            ],
        ),
    ]
}

/// S-28: the server is asked, so it does not matter by which address a client knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_do_not_count_one_lock_twice() {
    let server = RedisServer::start().await;
    for (one, two) in pairs(&server).await {
        for (kind, members) in twice(&one, &two) {
            let both = MultiLock::of(members).wait(Wait::UpTo(secs(60)));
            would_deadlock(kind, both.lock()).await;
            would_deadlock(kind, both.try_lock()).await;
        }
        // Nothing is held for longer than the release takes.
        let all = one.multi_lock(["mutex", "a", "b", "c"]);
        timeout(SOON, all.lock()).await.expect("kept").unwrap().release().await.unwrap();
        for name in ["read", "write", "sides"] {
            let writer = timeout(SOON, one.rw_lock(name).write()).await.expect("kept").unwrap();
            writer.release().await.unwrap();
        }
        let permits = [two_of(&one, "permits"), two_of(&two, "permits")];
        let permits = join_all(permits.iter().map(Semaphore::acquire));
        drop(timeout(SOON, permits).await.expect("kept"));
    }
    for name in ["mutex", "fair", "read", "write", "sides", "a", "b", "c"] {
        nothing_left(&server, name).await;
    }
}

/// S-6, S-28: the same name is another lock on another server, in another database and under another namespace, which a call
/// may hold as well; and it is the same lock if the namespaces make it so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_one_name_differ_by_server_database_and_namespace() {
    let (server, client) = world().await;
    let another = RedisServer::start().await;
    let shop = LockClient::builder().namespace("shop").connect(&server.url()).await.unwrap();
    let database = connected(&format!("{}/1", server.url().trim_end_matches('/'))).await;
    for other in [connect(&another).await, database, shop.clone(), LockClient::in_memory()] {
        let both = MultiLock::of([client.mutex("m").into(), other.mutex("m").into()]);
        let guard = timeout(SOON, both.lock()).await.expect("held").unwrap();
        assert!(client.mutex("m").try_lock().await.unwrap().is_none());
        assert!(other.mutex("m").try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        let guard = client.mutex("m").lock().await.unwrap();
        let both = timeout(SOON, guard.run(other.mutex("m").lock())).await.expect("held").unwrap();
        release_all([both.unwrap(), guard]).await;
    }
    let both = MultiLock::of([client.mutex("shop:m").into(), shop.mutex("m").into()]);
    would_deadlock("a namespace", both.lock()).await;
}

/// S-28: two nodes of one cluster are one store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_do_not_count_one_lock_of_a_cluster_twice() {
    let cluster = RedisCluster::start().await;
    let one = LockClient::builder().connect_cluster([cluster.node(0).url()]).await.unwrap();
    let two = LockClient::builder().connect_cluster([cluster.node(2).url()]).await.unwrap();
    for name in ["a", "b", "c"] {
        let both = MultiLock::of([one.mutex(name).into(), two.mutex(name).into()]);
        would_deadlock(name, both.lock()).await;
    }
    let guard = one.mutex("d").lock().await.unwrap();
    would_deadlock("a call", async { guard.run(two.mutex("d").lock()).await.unwrap() }).await;
}

/// S-6: a call does not wait for a hold around it that another client of its process has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_does_not_wait_for_itself_through_another_client() {
    let server = RedisServer::start().await;
    for (one, two) in pairs(&server).await {
        let guard = one.mutex("m").lock().await.unwrap();
        let mutex = two.mutex("m");
        let refused = async |what: &str, acquire: Acquire| {
            would_deadlock(what, async { guard.run(acquire).await.unwrap() }).await;
        };
        refused("mutex", mutex.lock()).await;
        refused("for ever", mutex.clone().wait(Wait::Forever).lock()).await;
        refused("several", two.multi_lock(["k", "m"]).lock()).await;
        let mixed = MultiLock::of([mutex.clone().into(), MultiMember::read(&two.rw_lock("r"))]);
        refused("mixed", mixed.lock()).await;
        // Behind a task that waits for this hold, it would wait for itself as well.
        let waiter = lock_tests::spawn(mutex.lock());
        soon!("it waits", two.admin().waiting().len() == 1);
        refused("in line", mutex.lock()).await;
        // Trying waits for nothing, and another name is another lock.
        assert!(guard.run(mutex.try_lock()).await.unwrap().unwrap().is_none());
        guard.run(two.mutex("n").lock()).await.unwrap().unwrap().release().await.unwrap();
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
        waiter.await.unwrap().unwrap().release().await.unwrap();

        let fair = one.fair_mutex("f").lock().await.unwrap();
        would_deadlock("fair", async { fair.run(two.fair_mutex("f").lock()).await.unwrap() }).await;
        let several = one.multi_lock(["k", "l"]).lock().await.unwrap();
        let part = async { several.run(two.mutex("l").lock()).await.unwrap() };
        would_deadlock("one of several", part).await;
        release_all([fair, several]).await;
    }
}

/// S-27: two readers share, whatever their clients; a reader and a writer do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sides_of_two_clients_do_not_wait_for_each_other() {
    let server = RedisServer::start().await;
    for (one, two) in pairs(&server).await {
        let (ours, theirs) = (one.rw_lock("r"), two.rw_lock("r"));
        let writer = ours.write().await.unwrap();
        would_deadlock("a reader", async { writer.run(theirs.read()).await.unwrap() }).await;
        would_deadlock("a writer", async { writer.run(theirs.write()).await.unwrap() }).await;
        writer.release().await.unwrap();
        let reader = ours.read().await.unwrap();
        would_deadlock("an upgrade", async { reader.run(theirs.write()).await.unwrap() }).await;
        let second = timeout(SOON, reader.run(theirs.read())).await.expect("held").unwrap();
        second.unwrap().release().await.unwrap();
        reader.release().await.unwrap();
        // Another holder may give its permit back.
        let permit = one.semaphore("s", 1).acquire().await.unwrap();
        let second = two.semaphore("s", 1).wait(Wait::UpTo(ms(300)));
        let second = permit.run(second.acquire()).await.unwrap();
        assert!(matches!(second, Err(LockError::Timeout { .. })), "{second:?}");
    }
}
