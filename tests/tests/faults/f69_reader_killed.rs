//! Fault 69: the process of one of three readers is killed (SIGKILL), and the other two go on reading.
//!
//! - Promised: its part ends with its own lease, whatever the others renew; a writer has the lock as soon as those have left.
//! - Seen: its part ends after 6 s, a lease; the writer follows the last live reader at once.

use crate::prelude::*;

/// The lease of all three. Before the dead reader's is over, the others renew theirs twice.
const LEASE: Duration = secs(6);

/// Less than the lock would last if the dead reader still counted: the others have renewed it at most a third of a lease ago.
const AT_ONCE: Duration = secs(3);

test_with!(its_part_ends_alone, RedisServer::start(), async |server| {
    let connect = async || LockClient::connect(&server.url()).await.unwrap();
    let clients = [connect().await, connect().await];
    let mut reading = Vec::new();
    for client in &clients {
        reading.push(client.rw_lock("read").with(watched(LEASE)).read().await.unwrap());
    }
    let history = tempfile::tempdir().unwrap();
    let mut third = locks_worker(&server, history.path(), &[]).await;
    third.send(&format!("hold read read {}", LEASE.as_millis()));
    assert!(third.next_line(SOON).await.starts_with("held "));
    third.sigkill();

    let raw = server.client();
    let live = async || {
        let keys = raw.keys().await;
        keys.iter().filter(|key| key.contains("rwlock_timeout")).count()
    };
    assert_eq!(live().await, 3);
    eventually(SOON, "the dead reader's part ends", async || live().await == 2).await;
    // It asks by itself later than this test ends.
    let writer = LockClient::builder().poll_cap(SOON * 2).connect(&server.url()).await.unwrap();
    let error = writer.rw_lock("read").with(waits(secs(1))).write().await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(reading.iter().all(|guard| !guard.is_lost()));

    let recorder = Arc::new(Recorder::create(history.path()).unwrap());
    let (witness, lock) =
        (Witness::new(&recorder, 0, "read", Share::Exclusive), writer.rw_lock("read"));
    let waiter = tokio::spawn(async move { witness.acquire(lock.write()).await?.release().await });
    eventually(SOON, "it is announced", async || {
        raw.exists("redisson_rwlock_writers:{read}").await
    })
    .await;
    for guard in reading {
        guard.release().await.unwrap();
    }
    timeout(AT_ONCE, waiter).await.expect("kept out by a dead reader").unwrap().unwrap();
    checked(history.path(), 2);
});
