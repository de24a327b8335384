//! Locks of every kind that only the test itself uses, beside those of the crews.

use std::path::Path;

use lock_tests::history::{History, Rules};

use crate::prelude::*;

/// The name of the test's own lock of that kind.
pub(crate) fn own_name(job: Job) -> String {
    format!("own:{job:?}")
}

/// A client that waits for answers for longer than any busy machine takes, and sends nothing by itself.
pub(crate) async fn quiet_client(drill: &Drill) -> LockClient {
    LockClient::builder().command_timeout(SOON).connect(&drill.server.url()).await.unwrap()
}

/// Holds of [`watched`] locks that have been renewed since they were acquired, by this part of their lease.
pub(crate) fn all_are_renewed(guards: &[LockGuard], past: Duration, lease: Duration) {
    for guard in guards {
        assert!(guard.remaining() > lease - past, "not renewed: {guard:?}");
    }
}

/// Acquires the test's own lock of every kind.
pub(crate) async fn hold_each(client: &LockClient, lease: Duration) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for job in Job::ALL {
        let start = Instant::now();
        guards.push(job.acquire(client, &own_name(job), watched(lease)).await.unwrap());
        let waited = start.elapsed();
        if waited > LEASE {
            eprintln!("waited for {job:?} for {waited:?}");
        }
    }
    guards
}

/// Releases them; each has to be held still.
pub(crate) async fn release_each(guards: Vec<LockGuard>) {
    for guard in guards {
        guard.release().await.unwrap();
    }
}

/// How many subscriptions there are to channels of the lock `name`.
pub(crate) async fn listeners(raw: &RawClient, name: &str) -> usize {
    let mut count = 0;
    for [channels, numbers] in [["CHANNELS", "NUMSUB"], ["SHARDCHANNELS", "SHARDNUMSUB"]] {
        let pattern = format!("*{name}*");
        let names: Vec<String> = raw.get(&["PUBSUB", channels, &pattern]).await;
        for channel in names {
            let (_, listeners): (String, usize) = raw.get(&["PUBSUB", numbers, &channel]).await;
            count += listeners;
        }
    }
    count
}

/// Acquires and releases each of them: in less time than a lease of the previous holder would take.
pub(crate) async fn soon_free(client: &LockClient) {
    let start = Instant::now();
    let held = timeout(secs(10), hold_each(client, LEASE * 10)).await.expect("all are free");
    eprintln!("all locks free after {:?}", start.elapsed());
    release_each(held).await;
}

/// Fills the server with this script and has it evict keys by this policy while each kind of lock is held: at least so many
/// of these holds have to be lost, and learn of it from the store.
pub(crate) async fn evict(drill: &Drill, fill: &str, policy: &str, fewest: usize) {
    let raw = drill.server.client();
    // So long that the store, and not the deadline, tells of the loss on a busy machine.
    let lease = secs(6);
    let held = hold_each(&drill.near.client, lease).await;
    raw.cmd(&["EVAL", fill, "0"]).await;
    raw.cmd(&["CONFIG", "SET", "maxmemory-policy", policy]).await;
    let info: String = raw.get(&["INFO", "memory"]).await;
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let most = used.parse::<u64>().unwrap() - 400 * 1024;
    let squeeze = async {
        raw.cmd(&["CONFIG", "SET", "maxmemory", &most.to_string()]).await;
        sleep(ms(50)).await;
        raw.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
    };
    drill.loses(squeeze).await;
    let losses = held.iter().map(|guard| timeout(lease * 2 / 3, guard.lost()));
    let mut lost = 0;
    for loss in join_all(losses).await.into_iter().flatten() {
        assert!(matches!(loss, LockError::Lost { cause: LossCause::NotOwner, .. }), "{loss:?}");
        lost += 1;
    }
    let info: String = raw.get(&["INFO", "stats"]).await;
    let evictions = info.lines().find(|line| line.starts_with("evicted_keys:")).unwrap();
    eprintln!("{lost} of {} lost, {evictions}", held.len());
    assert!(evictions != "evicted_keys:0" && lost >= fewest, "{lost} lost, {evictions}");
    drop(held);
    // The key of a read hold whose lock was evicted ends by itself.
    let ends = async || raw.get::<Vec<String>>(&["KEYS", "{own:*rwlock_timeout*"]).await.is_empty();
    eventually(SOON, "what eviction has left of a hold ends", ends).await;
    remove_filling(&raw).await;
}

/// Removes what a test has filled the server with.
pub(crate) async fn remove_filling(raw: &RawClient) {
    let remove = "for _, key in ipairs(redis.call('KEYS', 'fill*')) do redis.call('DEL', key) end";
    raw.cmd(&["EVAL", remove, "0"]).await;
}

/// Starts a process that takes locks when told to, and records them there.
pub(crate) async fn locks_worker(server: &RedisServer, histories: &Path, more: &[&str]) -> Worker {
    let args = ["locks", &*server.url(), histories.to_str().unwrap()];
    let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &[&args[..], more].concat(), &[]);
    assert_eq!(worker.next_line(SOON).await, "ready");
    worker
}

/// Checks what processes have recorded there: so many have acquired a lock.
pub(crate) fn checked(histories: &Path, holders: usize) {
    let history = History::load(histories).unwrap();
    history.check(&Rules::default()).assert_clean();
    assert_eq!(history.claims().len(), holders);
}
