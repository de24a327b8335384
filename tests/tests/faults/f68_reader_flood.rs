//! Fault 68: fifty tasks of two clients read over and over, so that a read/write lock is never free of readers, while a writer
//! asks for it.
//!
//! - Promised: new readers let a waiting writer go first, so each write waits for the readers that are inside and no others:
//!   less than 3 s, however busy the machine is.
//! - Seen: the longest of 20 waits is 35 to 50 ms, with readers that hold for 5 to 15 ms.

use tokio::task::JoinSet;

use crate::prelude::*;

test_with!(the_writer_is_served, RedisServer::start(), async |server| {
    let connect = async || LockClient::connect(&server.url()).await.unwrap();
    let (one, other, writer) = (connect().await, connect().await, connect().await);
    let mut readers = JoinSet::new();
    for client in [one, other].into_iter().cycle().take(50) {
        let lock = client.rw_lock("flooded");
        readers.spawn(async move {
            loop {
                let held = lock.read().await.unwrap();
                sleep(ms(fastrand::u64(5..15))).await;
                held.release().await.unwrap();
            }
        });
    }
    let raw = server.client();
    eventually(SOON, "they read", async || raw.exists("flooded").await).await;
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        let lock = writer.rw_lock("flooded");
        let held = timeout(SOON, lock.write()).await.expect("the writer starves").unwrap();
        longest = longest.max(start.elapsed());
        held.release().await.unwrap();
        sleep(ms(20)).await;
    }
    eprintln!("the longest wait of a writer: {longest:?}");
    assert!(longest < patience(secs(3)), "a writer waited {longest:?}");
    assert!(readers.try_join_next().is_none(), "a reader has failed");
});
