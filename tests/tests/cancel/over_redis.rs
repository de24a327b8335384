//! Calls under the attribute and the layers, dropped at every await over a server.

use lock_tests::{RedisServer, eventually};

use crate::prelude::*;
use crate::rows::{Start, rows};
use crate::stage::{Kind, Process};
use crate::sweep::Setting;

/// The rows of the attribute and the layers. The locks themselves are swept over Redis with their kinds.
const CALLS: [&str; 5] =
    ["distributed_lock", "LockFuture", "HttpLockFuture", "HeldLock::release", "HeldLock::lost"];

/// How long another task or process has the lock.
const HELD_FOR: Duration = ms(20);

/// Enough for its last request to reach the server. One that is dropped before is not sent at all.
const SENT: Duration = ms(2);

/// Less than the lease, which is 30 s: its end must not do what a dropped call should have done.
const SOON: Duration = secs(10);

/// More polls than any of them needs.
const MOST: usize = 100;

async fn hold(by: &Process) -> JoinHandle<()> {
    let guard = by.take(Kind::Mutex).await.unwrap();
    tokio::spawn(async move {
        sleep(HELD_FOR).await;
        guard.release().await.unwrap();
    })
}

/// S-17, S-20, S-21: nothing is left on the server, and another process and a task of the same one get the lock.
#[tokio::test]
async fn calls_are_dropped_at_every_await() {
    let server = RedisServer::start().await;
    let raw = server.client();
    let connect = async || Process::of(LockClient::connect(&server.url()).await.unwrap());
    let (far, near) = (connect().await, connect().await);
    let keys = async || {
        let keys = raw.keys().await.into_iter();
        keys.filter(|key| !key.starts_with("redisson_lock_token:")).collect::<Vec<_>>()
    };
    let mut drops = 0;
    for row in rows().filter(|row| CALLS.contains(&row.future)) {
        let Start::Acquire(make) = row.start else { panic!("{} acquires nothing", row.future) };
        for setting in [Setting::Free, Setting::Held, Setting::Queued] {
            for polls in 0.. {
                let what = format!("{} ({setting:?}) dropped after {polls} polls", row.future);
                assert!(polls < MOST, "{what}: it does not complete");
                let holder = match setting {
                    Setting::Free => None,
                    Setting::Held => Some(hold(&near).await),
                    Setting::Queued => Some(hold(&far).await),
                };
                let mut call = make(&far);
                let polled = timeout(SOON, poll_then_drop(call.as_mut(), polls)).await;
                let polled = polled.unwrap_or_else(|_| panic!("{what}: it is not woken"));
                sleep(SENT).await;
                drop(call);
                if let Some(holder) = holder {
                    holder.await.unwrap();
                }
                let gone = format!("{what}: nothing is left");
                eventually(SOON, &gone, async || keys().await.is_empty()).await;
                let free = near.client.mutex("a").try_lock().await.unwrap();
                free.unwrap_or_else(|| panic!("{what}: it is held")).release().await.unwrap();
                // Last: it would go on with a request of its own process, and release what that left.
                let again = timeout(SOON, far.take(Kind::Mutex)).await;
                let again = again.unwrap_or_else(|_| panic!("{what}: its process waits for it"));
                again.unwrap().release().await.unwrap();
                drops += 1;
                if polled == Polled::Completed(()) {
                    break;
                }
            }
        }
    }
    // As many awaits as a request and a body of two have, for each in each setting.
    assert!(drops >= 3 * 3 * CALLS.len(), "only {drops} drops");
    let channels = async || raw.lock_channels().await.is_empty();
    eventually(SOON, "no channel is left", channels).await;
    for process in [far, near] {
        assert!(process.client.shutdown(SOON).await.is_clean());
    }
}
