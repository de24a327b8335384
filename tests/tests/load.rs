//! Many tasks on one key (S-14).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::time::Duration;

use lock_runtime::LockClient;
use lock_tests::RedisServer;
use tokio::time::timeout;

/// A thousand tasks line up: each gets it once, Redis hears of one hold per batch, nothing stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_cost_a_handful_of_commands() {
    const TASKS: usize = 1_000;
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let first = client.mutex("crowd").lock().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..TASKS {
        let mutex = client.mutex("crowd");
        let mut acquire = Box::pin(async move { mutex.lock().await });
        assert!(futures_util::poll!(acquire.as_mut()).is_pending());
        waiting.push(acquire);
    }
    server.reset_stats().await;
    let tasks: Vec<_> = waiting
        .into_iter()
        .map(|acquire| {
            tokio::spawn(async move {
                let guard = acquire.await.unwrap();
                let token = guard.token();
                guard.release().await.unwrap();
                token
            })
        })
        .collect();
    first.release().await.unwrap();
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.push(timeout(Duration::from_secs(30), task).await.expect("starved").unwrap());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "served out of order");
    let scripts = server.command_calls().await["evalsha"];
    // 256 tokens to a hold: four holds and the first one's release, unless the window of 5 ms ends
    // a batch early on a busy machine.
    assert!(scripts <= TASKS as u64 / 10, "{scripts} scripts for {TASKS} grants");
    assert_eq!(server.client().keys().await, ["redisson_lock_token:{crowd}"]);
}

/// Waiting costs memory only while it lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds_of_waiting_leave_no_memory_behind() {
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
        resident_bytes()
    };
    for _ in 0..5 {
        round(500).await;
    }
    let before = round(500).await;
    for _ in 0..20 {
        round(500).await;
    }
    let after = round(500).await;
    // 40 000 acquisitions; a leak of one small allocation in each would pass two megabytes.
    assert!(after < before + 2_000_000, "{before} bytes grew to {after}");
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("its format");
    pages * 4096
}
