//! Locks that are acquired and released for ever leave nothing behind.
//!
//! `cargo xtask soak --cycles 1000000` runs more cycles and shows what each tenth of them leaves.
use std::time::Duration;

use futures_util::future::join_all;
use lock_runtime::{LockClient, LockOptions, Wait};
use lock_tests::{RawClient, RedisServer, eventually};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::{alone, live_bytes};

const SOON: Duration = Duration::from_secs(10);

/// The variable that asks for more cycles, as `1000000`.
const CYCLES: &str = "LOCK_CYCLES";

/// Less than 30 bytes for each of the fewest cycles, which no value that is kept would do with; more than what tables and
/// buffers differ by from one moment to the next.
const SLACK: usize = 256 * 1024;

/// How much more memory the process may occupy after all cycles than after the first of them: the allocator keeps pages whose
/// bytes are free.
const RESIDENT_SLACK: usize = 16 * 1024 * 1024;

/// How many tasks share the names.
const TASKS: usize = 16;

/// In how many parts the cycles run. What is there after the first ones is what is there after the last.
const PARTS: usize = 12;
const WARM: usize = 3;

/// What the names begin with that are used once.
const ONCE: &str = "once:";

/// One lock of each kind, with others after it; one acquire in sixteen is given up, and one name in seven is new.
async fn cycle(client: &LockClient, number: usize) {
    let name = match number % 7 {
        5 => format!("{ONCE}{number}"),
        _ => format!("cycle:{}", number % 8),
    };
    let acquire = match number % 6 {
        0 => client.mutex(name).lock(),
        1 => client.fair_mutex(format!("fair:{name}")).lock(),
        2 => client.rw_lock(format!("rw:{name}")).read(),
        3 => client.rw_lock(format!("rw:{name}")).write(),
        4 => client.multi_lock([format!("one:{name}"), format!("two:{name}")]).lock(),
        _ => {
            let permit = client.semaphore(format!("permits:{name}"), 3).acquire().await;
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

/// The keys on the server, but for the counters of names that are used once, which expire: as long a list would take memory
/// that is none of the client's.
const KEYS: &str = "local kept = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local outlasts = key:find('^redisson_lock_token:') or key:find('^permits:')
  if not (outlasts and key:find('once:', 1, true)) then
    kept[#kept + 1] = key
  end
end
return kept";

async fn keys(raw: &RawClient) -> Vec<String> {
    raw.get(&["EVAL", KEYS, "0"]).await
}

/// True unless the key is a fencing counter, or what a semaphore keeps: the free permits.
fn is_lock(key: &str) -> bool {
    !key.starts_with("redisson_lock_token:") && !key.starts_with("permits:")
}

/// What there is after a number of cycles.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "all of it is printed")]
struct Left {
    /// Allocated and not freed.
    bytes: usize,
    /// What the process occupies, as the system counts it; zero where it does not tell.
    resident: usize,
    connections: usize,
    channels: usize,
    tasks: usize,
    /// On the server, but for the counters of names that are used once, which expire.
    keys: usize,
}

impl Left {
    async fn now(raw: &RawClient) -> Self {
        let clients: String = raw.get(&["CLIENT", "LIST"]).await;
        let keys = keys(raw).await.len();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        Self {
            bytes: live_bytes(),
            resident: kib.unwrap_or_default() * 1024,
            connections: clients.lines().count(),
            channels: raw.lock_channels().await.len(),
            tasks: Handle::current().metrics().num_alive_tasks(),
            keys,
        }
    }
}

/// Memory, keys, channels, connections and tasks are after many cycles what they were after some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cycles_of_every_kind_leave_nothing() {
    let _alone = alone().await;
    let cycles = std::env::var(CYCLES).map_or(12_000, |cycles| cycles.parse().unwrap());
    let server = RedisServer::start().await;
    let raw = server.client();
    let wait = LockOptions::new().wait(Wait::UpTo(SOON));
    let client = LockClient::builder().options(wait).connect(&server.url()).await.unwrap();
    let start = Instant::now();
    let mut done = 0;
    let mut run = async |cycles: usize| {
        let from = done;
        done += cycles;
        let tasks = (0..TASKS).map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for number in 0..cycles / TASKS {
                    cycle(&client, from + number * TASKS + task).await;
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(|done| done.unwrap());
        // A dropped guard, and an acquire that was given up, are released in the background.
        let locks = async || keys(&raw).await.into_iter().filter(|key| is_lock(key)).count();
        eventually(SOON, "nothing is held", async || locks().await == 0).await;
        assert_eq!(client.admin().held().len(), 0);
        println!(
            "{done:>9} cycles {:>5} s: {:?}",
            start.elapsed().as_secs(),
            Left::now(&raw).await
        );
    };
    let channels = async || raw.lock_channels().await.len();
    for _ in 0..WARM {
        run(cycles / PARTS).await;
    }
    eventually(SOON, "no channel is left", async || channels().await == 0).await;
    let before = Left::now(&raw).await;
    for _ in WARM..PARTS {
        run(cycles / PARTS).await;
    }
    // Queues and buffers give their memory back when they are empty.
    let is_back = async || live_bytes() < before.bytes + SLACK;
    eventually(SOON, "memory is what it was", is_back).await;
    let counts = |left: Left| [left.connections, left.channels, left.tasks];
    let are_back = async || counts(Left::now(&raw).await) == counts(before);
    eventually(SOON, "connections, channels and tasks are what they were", are_back).await;
    let after = Left::now(&raw).await;
    println!("{before:?}\n{after:?}");
    assert!(after.resident < before.resident + RESIDENT_SLACK, "{before:?}, {after:?}");
    for key in keys(&raw).await {
        assert_ne!(raw.get::<i64>(&["PTTL", &key]).await, -1, "{key} has no end");
    }
    let keyspace: String = raw.get(&["INFO", "keyspace"]).await;
    let number = |field: &str| {
        keyspace.split([':', ',']).find_map(|it| it.strip_prefix(field)?.parse::<u64>().ok())
    };
    assert_eq!(number("keys="), number("expires="), "{keyspace}");
    assert!(client.shutdown(SOON).await.is_clean());
}
