//! Locks that are acquired and released for ever leave nothing behind.

use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::join_all;
use lock_runtime::{LockClient, LockOptions, Wait};
use lock_tests::{RedisServer, eventually};
use tokio::time::timeout;

use super::{alone, live_bytes};

const SOON: Duration = Duration::from_secs(10);

/// The variable that asks for more cycles, as `1000000`.
const CYCLES: &str = "LOCK_CYCLES";

/// Less than 24 bytes for each of the fewest cycles, which no value that is kept would do with; more than what tables and
/// buffers differ by from one moment to the next.
const SLACK: usize = 256 * 1024;

/// How many tasks share the names.
const TASKS: usize = 16;

/// One lock of each kind, with others after it; one acquire in sixteen is given up.
async fn cycle(client: &LockClient, number: usize) {
    let name = format!("cycle:{}", number % 8);
    let three = NonZeroU32::new(3).unwrap();
    let acquire = match number % 6 {
        0 => client.mutex(name).lock(),
        1 => client.fair_mutex(format!("fair:{name}")).lock(),
        2 => client.rw_lock(format!("rw:{name}")).read(),
        3 => client.rw_lock(format!("rw:{name}")).write(),
        4 => client.multi_lock([format!("one:{name}"), format!("two:{name}")]).lock(),
        _ => {
            let permit = client.semaphore(format!("permits:{name}"), three).acquire().await;
            return permit.unwrap().release().await.unwrap();
        }
    };
    if number % 16 == 7 {
        drop(timeout(Duration::from_micros(200), acquire).await);
        return;
    }
    let guard = acquire.await.unwrap();
    match number % 3 {
        0 => drop(guard),
        _ => guard.release().await.unwrap(),
    }
}

/// True unless the key is a fencing counter or the number of free permits, which outlast a hold.
fn is_lock(key: &str) -> bool {
    !key.starts_with("redisson_lock_token:") && !key.starts_with("permits:")
}

/// Memory, keys, channels and connections are after many cycles what they were after some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cycles_of_every_kind_leave_nothing() {
    let _alone = alone().await;
    let cycles = std::env::var(CYCLES).map_or(12_000, |cycles| cycles.parse().unwrap());
    let server = RedisServer::start().await;
    let raw = server.client();
    let wait = LockOptions::builder().wait(Wait::UpTo(SOON)).build().unwrap();
    let client = LockClient::builder().options(wait).connect(&server.url()).await.unwrap();
    let run = async |cycles: usize| {
        let tasks = (0..TASKS).map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for number in 0..cycles / TASKS {
                    cycle(&client, number * TASKS + task).await;
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(|done| done.unwrap());
        let channels = async || raw.lock_channels().await.len();
        eventually(SOON, "few channels are left", async || channels().await <= 2).await;
        // A dropped guard, and an acquire that was given up, are released in the background.
        let locks = async || raw.keys().await.into_iter().filter(|key| is_lock(key)).count();
        eventually(SOON, "nothing is held", async || locks().await == 0).await;
        assert_eq!(client.held().len(), 0);
        let clients: String = raw.get(&["CLIENT", "LIST"]).await;
        (raw.keys().await, clients.lines().count())
    };
    let left = run(cycles / 4).await;
    let before = live_bytes();
    assert_eq!(left, run(cycles).await);
    // Queues and buffers give their memory back when they are empty.
    let is_back = async || live_bytes() < before + SLACK;
    eventually(SOON, "memory is what it was", is_back).await;
    println!("{cycles} cycles: {before} bytes before, {} after", live_bytes());
    let endless = async || {
        let mut endless = Vec::new();
        for key in raw.keys().await {
            let left: i64 = raw.get(&["PTTL", &key]).await;
            if left == -1 {
                endless.push(key);
            }
        }
        endless
    };
    assert_eq!(endless().await, Vec::<String>::new(), "keys without an end");
    assert!(client.shutdown(SOON).await.is_clean());
}
