//! Sides that are kept for a while, however soon they are let go (`LockOptions::at_least`): `at_least`
//! has what they share with other kinds.

use crate::kinds::rw::*;
use crate::support::kinds::two_in_memory;

const AT_LEAST: Duration = ms(600);

fn kept() -> LockOptions {
    LockOptions::new().at_least(AT_LEAST)
}

/// Two clients of each store, as two processes would have them.
async fn pairs(server: &RedisServer) -> [(LockClient, LockClient); 2] {
    [two_in_memory(), (connect(server).await, connect(server).await)]
}

/// S-27: readers who are to be kept stand alone, and one that ends early shortens no other's lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_are_kept_one_by_one() {
    let server = RedisServer::start().await;
    for (client, other) in pairs(&server).await {
        let plain = client.rw_lock("r").read().await.unwrap();
        let short = client.rw_lock("r").with(kept()).read().await.unwrap();
        assert_eq!(other.admin().inspect("r").await.unwrap().holders.len(), 2);
        short.release().await.unwrap();
        sleep(AT_LEAST).await;
        assert!(other.rw_lock("r").try_write().await.unwrap().is_none(), "the plain one is gone");
        let left = other.admin().inspect("r").await.unwrap();
        assert_eq!(left.holders.len(), 1);
        assert!(left.remaining.unwrap() > secs(10), "{left:?}");
        plain.release().await.unwrap();
        other.rw_lock("r").try_write().await.unwrap().unwrap().release().await.unwrap();
    }
}

/// S-15, S-27: a writer that is kept ends when it was to end, and those who wait learn of it, although the lease of a reader
/// inside had the lock last longer; also if the readers inside release before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_inside_makes_no_writer_longer() {
    let server = RedisServer::start().await;
    for (client, other) in pairs(&server).await {
        for writes in [true, false] {
            let lock = client.rw_lock("i");
            let start = Instant::now();
            let writer = lock.clone().with(kept()).write().await.unwrap();
            let (one, two) =
                writer.run(async { (lock.read().await, lock.read().await) }).await.unwrap();
            writer.release().await.unwrap();
            one.unwrap().release().await.unwrap();
            let waiter = if writes { writing(&other, "i") } else { reading(&other, "i") };
            sleep(AT_LEAST / 6).await;
            two.unwrap().release().await.unwrap();
            assert!(other.rw_lock("i").try_read().await.unwrap().is_none(), "not kept");
            let next = timeout(secs(3), waiter).await.expect("kept for ever").unwrap();
            assert!(start.elapsed() >= AT_LEAST, "free after {:?}", start.elapsed());
            next.unwrap().release().await.unwrap();
        }
    }
}

/// S-27: what is freed by force leaves nothing behind, of those inside neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_kept_and_is_freed_leaves_nothing() {
    let (server, client) = world().await;
    let long = LockOptions::new().at_least(secs(60));
    let lock = client.rw_lock("f");
    let writer = lock.clone().with(long).write().await.unwrap();
    let reader = writer.run(lock.read()).await.unwrap().unwrap();
    writer.release().await.unwrap();
    assert!(client.admin().force_release("f").await.unwrap());
    nothing_left(&server, "f").await;
    assert!(reader.release().await.is_err());
}

/// S-27: who asked for the read side inside of a writer, and is late, is not let in by its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_writer_lets_no_reader_in() {
    let server = RedisServer::start().await;
    let redis = RedisStore::connect(&server.url()).await.unwrap();
    let stores: [Box<dyn Store>; 2] = [Box::new(MemoryStore::new()), Box::new(redis)];
    for store in stores {
        let owner = |hold| OwnerId::new("8f1c", hold, 1);
        let ask = |target: fn(LockKey) -> Arc<Target>, owner| {
            AcquireRequest::new(target(LockKey::new("n").unwrap()), owner, secs(20), secs(5))
        };
        let inside = |hold| ask(Target::read, owner(hold).within(&owner(1)));
        let writer = ask(Target::write, owner(1));
        let released = ReleaseRequest::new(Arc::clone(&writer.target), owner(1), writer.timeout)
            .with_keep(secs(10));
        assert!(matches!(store.acquire(writer).await.unwrap(), AcquireReply::Granted(_)));
        assert!(matches!(store.acquire(inside(2)).await.unwrap(), AcquireReply::Granted(_)));
        store.release(released).await.unwrap();
        let late = store.acquire(inside(3)).await.unwrap();
        assert!(matches!(late, AcquireReply::Held(_)), "{store:?}: {late:?}");
        // Asked again after a lost reply, it has what it had (S-22).
        let again = store.acquire(inside(2)).await.unwrap();
        assert!(matches!(again, AcquireReply::Granted(_)), "{store:?}: {again:?}");
    }
}
