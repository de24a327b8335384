//! Forged and malformed messages on the channels of locks: hints at most (S-15).

use lock_runtime::{LockError, LockGuard};
use lock_tests::eventually;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::resp::Publisher;
use super::*;

const KINDS: [&str; 5] = ["mutex", "fair", "write", "semaphore", "multi"];

async fn take(client: &LockClient, kind: &str, wait: Duration) -> Result<LockGuard, LockError> {
    match kind {
        "multi" => client.multi_lock([kind, "more"]).with(waits(wait)).lock().await,
        kind => lock_tests::take(client, kind, kind, waits(wait)).await,
    }
}

/// What Redisson, an attacker or a bug could publish.
fn messages() -> Vec<Vec<u8>> {
    let texts = "|0|1|2|-1|+1|00|1e9|18446744073709551615|18446744073709551616|0x1|NaN|\0|\r\n|\
        *1\r\n$4\r\nPING\r\n|{\"released\":true}|3b241101-e2bb-4255-8caf-4136c566a962:1|unlock|mutex|🔓";
    let mut messages: Vec<_> = texts.split('|').map(|text| text.as_bytes().to_vec()).collect();
    messages.extend([vec![0xff; 3], vec![0xc3], vec![b'7'; 10 << 20], vec![0; 10 << 20]]);
    messages
}

/// No message grants a lock that is held or ends a hold, whatever channel it comes on; then the release does its work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_message_grants_nothing() {
    watch_panics();
    let server = RedisServer::start().await;
    let (holder, client) = (connect(&server).await, connect(&server).await);
    let mut held = Vec::new();
    let mut waiting: Vec<(&str, JoinHandle<Result<LockGuard, LockError>>)> = Vec::new();
    for kind in KINDS {
        held.push(take(&holder, kind, SOON).await.unwrap());
        let client = client.clone();
        waiting.push((kind, tokio::spawn(async move { take(&client, kind, 6 * SOON).await })));
    }
    let raw = server.client();
    let channels = async || raw.lock_channels().await;
    eventually(SOON, "all waiters listen", async || channels().await.len() > KINDS.len()).await;
    let mut publisher = Publisher::of(&server).await;
    let mut received = 0;
    for channel in channels().await {
        for message in messages() {
            received += publisher.publish(&channel, &message, 1).await;
        }
    }
    assert!(received as usize >= KINDS.len() * messages().len(), "{received} messages arrived");
    for (kind, waiter) in &waiting {
        assert!(!waiter.is_finished(), "{kind}: a message granted it");
    }
    for guard in held {
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
    }
    for (kind, waiter) in waiting {
        let granted = timeout(SOON, waiter).await.unwrap_or_else(|_| panic!("{kind}: no grant"));
        granted.unwrap().unwrap().release().await.unwrap();
    }
    no_panics();
}
