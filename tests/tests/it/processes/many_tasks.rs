//! Many tasks on one key (S-14).

use crate::prelude::*;

const TASKS: usize = 8;
const GRANTS: usize = 16_000;

/// S-14: a hold is handed on no more than 256 times while other processes listen, who may want it. How seldom a process that is alone
/// asks is on record in `benches/baseline.json`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_others_wait_for_asks_the_store_often() {
    let server = RedisServer::start().await;
    let _listener = server.subscribe_log("redisson_lock__channel:{crowd}").await;
    let builder = LockClient::builder().handoff_window(secs(60));
    let client = builder.connect(&server.url()).await.unwrap();
    // All begin at once and end at once: one task alone would ask for each of its grants.
    let held = client.mutex("crowd").lock().await.unwrap();
    let grants = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (mutex, grants) = (client.mutex("crowd"), Arc::clone(&grants));
            lock_tests::spawn(async move {
                while grants.fetch_add(1, Ordering::Relaxed) < GRANTS {
                    mutex.lock().await.unwrap().release().await.unwrap();
                }
            })
        })
        .collect();
    soon!("all tasks wait", client.admin().waiting().len() == TASKS);
    server.reset_stats().await;
    held.release().await.unwrap();
    joined(tasks).await;
    let scripts = server.command_calls().await["evalsha"];
    assert!(scripts as usize >= 2 * GRANTS / 256, "{scripts} scripts for {GRANTS} grants");
}
