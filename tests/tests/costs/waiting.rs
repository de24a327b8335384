//! What waiting leaves behind in memory.

use lock_runtime::LockClient;
use lock_tests::RedisServer;

use super::{alone, live_bytes};

/// Waiting costs memory only while it lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds_of_waiting_leave_no_memory_behind() {
    let _alone = alone().await;
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let round = async |names: usize| {
        let tasks: Vec<_> = (0..names * 4)
            .map(|task| {
                let mutex = client.mutex(format!("mem:{}", task % names));
                tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        live_bytes()
    };
    for _ in 0..5 {
        round(500).await;
    }
    let before = round(500).await;
    for _ in 0..20 {
        round(500).await;
    }
    let after = round(500).await;
    // 40 000 acquisitions; a leak of eight bytes in each would be 320 000.
    assert!(after < before + 200_000, "{before} bytes grew to {after}");
}
