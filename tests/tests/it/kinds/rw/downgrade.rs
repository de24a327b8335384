//! One call path on both sides: downgrade, upgrade, re-entry (S-6, S-27, W1).

use crate::kinds::rw::*;
use crate::support::kinds::two_in_memory;

/// S-27: readers who wait are told of the downgrade; writers wait on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_wakes_readers_at_once() {
    let (server, client) = world().await;
    let (other, third) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("d");
    let writer = lock.write().await.unwrap();
    let reader = writer.run(lock.read()).await.unwrap().unwrap();
    assert!(reader.token() > writer.token());
    let waiters = [reading(&client, "d"), reading(&other, "d"), reading(&other, "d")];
    listening(&server, "d", 2).await;
    assert!(third.rw_lock("d").try_read().await.unwrap().is_none(), "the writer is not alone");
    writer.release().await.unwrap();
    let released = Instant::now();
    drop(all_got(waiters, PROMPTLY).await);
    assert!(released.elapsed() < at_once(), "readers slept on for {:?}", released.elapsed());
    for client in [&client, &other] {
        assert!(client.rw_lock("d").try_write().await.unwrap().is_none(), "a reader is there");
    }
    let waiting = writing(&third, "d");
    listening(&server, "d", 1).await;
    reader.release().await.unwrap();
    got(waiting, at_once()).await.release().await.unwrap();
    nothing_left(&server, "d").await;
}

/// W1: one side is released, and the other is renewed for many leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releasing_one_side_leaves_the_other_renewed() {
    let (server, client, other) = world_of_two().await;
    let (lease, lock) = (ms(500), other.rw_lock("w"));
    for read_goes_first in [true, false] {
        let both = client.rw_lock("w").with(watched(lease));
        let writer = both.write().await.unwrap();
        let reader = writer.run(both.read()).await.unwrap().unwrap();
        let (gone, stays) = if read_goes_first { (reader, writer) } else { (writer, reader) };
        gone.release().await.unwrap();
        let until = Instant::now() + lease * 6;
        while Instant::now() < until {
            assert!(!stays.is_lost(), "the renewal stopped");
            let tried =
                if read_goes_first { lock.try_read().await } else { lock.try_write().await };
            assert!(tried.unwrap().is_none(), "it was free");
            sleep(lease / 10).await;
        }
        stays.release().await.unwrap();
        nothing_left(&server, "w").await;
    }
}

/// S-6, S-27: the write side inside the read side is refused at once, unless it is held around that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_cannot_become_a_writer() {
    let (server, client) = world().await;
    let lock = client.rw_lock("up");
    let reader = lock.read().await.unwrap();
    let asked = Instant::now();
    let refused = reader.run(timeout(PROMPTLY, lock.write())).await.unwrap();
    let refused = refused.expect("waits for itself").unwrap_err();
    assert!(matches!(refused, LockError::WouldDeadlock { .. }), "{refused}");
    let refused = reader.run(lock.try_write()).await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::WouldDeadlock { .. }), "{refused}");
    assert!(asked.elapsed() < at_once());
    assert!(!server.client().exists("redisson_rwlock_writers:{up}").await, "it was announced");
    reader.release().await.unwrap();

    let writer = lock.write().await.unwrap();
    let inside = async {
        let reader = lock.read().await.unwrap();
        let again = reader.run(lock.write()).await.unwrap().unwrap();
        assert_eq!(again.token(), writer.token(), "the write side around it covers it");
        (reader, again)
    };
    let (reader, again) = writer.run(inside).await.unwrap();
    drop(again);
    writer.release().await.unwrap();
    // The write side has ended, and with it the cover.
    let refused = reader.run(lock.write()).await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::WouldDeadlock { .. }), "{refused}");
    reader.release().await.unwrap();
    nothing_left(&server, "up").await;
}

/// S-27: a lost read side is no downgrade; the write side is whole, and its release frees the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_read_side_leaves_the_write_side_whole() {
    let (server, client) = world().await;
    let lease = ms(500);
    let lock = client.rw_lock("l").with(watched(lease));
    let writer = lock.write().await.unwrap();
    let reader = writer.run(lock.read()).await.unwrap().unwrap();
    let raw = server.client();
    let field = holds(&server, "l").await.into_iter().find(|(field, _)| !field.ends_with(":write"));
    let hold_end = format!("{{l}}:{}:rwlock_timeout:1", field.unwrap().0);
    assert!(matches!(raw.pttl(&hold_end).await, Ttl::Left(_)));
    assert!(raw.del(&hold_end).await);
    let lost = timeout(PROMPTLY, reader.lost()).await.expect("the loss went unnoticed");
    assert!(matches!(lost, LockError::Lost { cause: LossCause::NotOwner, .. }), "{lost}");
    assert!(!writer.is_lost());
    writer.release().await.unwrap();
    assert!(!raw.exists("l").await, "downgraded to a reader that is none");
    drop(reader);
    nothing_left(&server, "l").await;
}

/// S-27: a writer that has released, and whose `at_least` is over, keeps no other reader out, however long the read inside
/// of it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_with_at_least_lets_readers_in_once_that_is_over() {
    let server = RedisServer::start().await;
    let at_least = ms(1500);
    let redis = (connect(&server).await, connect(&server).await);
    for (client, other) in [two_in_memory(), redis] {
        let start = Instant::now();
        let options = LockOptions::new().at_least(at_least);
        let lock = client.rw_lock("a");
        let writer = lock.clone().with(options).write().await.unwrap();
        let reader = writer.run(lock.read()).await.unwrap().unwrap();
        writer.release().await.unwrap();
        let waiters = [reading(&other, "a"), reading(&client, "a")];
        let early = other.rw_lock("a").try_read().await.unwrap();
        // A slow machine may be late by then.
        assert!(early.is_none() || start.elapsed() >= at_least, "it is kept");
        let readers = all_got(waiters, SOON).await;
        assert!(start.elapsed() >= at_least, "free after {:?}", start.elapsed());
        assert!(!reader.is_lost());
        let inspected = other.admin().inspect("a").await.unwrap();
        assert_eq!(inspected.kind, Some(HoldKind::Read), "{inspected:?}");
        assert!(other.rw_lock("a").try_write().await.unwrap().is_none(), "readers hold it");
        reader.release().await.unwrap();
        assert!(other.rw_lock("a").try_write().await.unwrap().is_none(), "readers hold it");
        release_all(readers).await;
        other.rw_lock("a").try_write().await.unwrap().expect("free").release().await.unwrap();
    }
    nothing_left(&server, "a").await;
}
