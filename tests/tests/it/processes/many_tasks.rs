//! Many tasks on one key (S-14).

use crate::prelude::*;

/// A thousand tasks line up: each gets it once, Redis hears of one hold per batch, nothing stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_cost_a_handful_of_commands() {
    const TASKS: usize = 1_000;
    let (server, client) = world().await;
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
    let tokens = joined(tasks).await;
    assert!(tokens.is_sorted_by(|a, b| a < b), "served out of order");
    let scripts = server.command_calls().await["evalsha"];
    // 256 tokens to a hold: four holds and the first one's release, unless the window of 5 ms ends
    // a batch early on a busy machine.
    assert!(scripts <= TASKS as u64 / 10, "{scripts} scripts for {TASKS} grants");
    assert_eq!(server.client().keys().await, ["redisson_lock_token:{crowd}"]);
}
