//! What Redis sees, and what it costs (S-2, S-16, S-19, S-27).

use crate::kinds::rw::*;

const LEASE: Duration = secs(20);

async fn expires_like_a_lease(raw: &RawClient, key: &str) {
    let pttl = left(raw.pttl(key).await);
    assert!(pttl <= LEASE && pttl > LEASE / 2, "{key}: {pttl:?}");
}

/// Redisson's hash, fields, per-hold keys and messages; nothing but the counter afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_have_redissons_layout() {
    let (server, client) = world().await;
    let raw = server.client();
    let log = server.subscribe_log("redisson_rwlock:{l}").await;
    let lock = client.rw_lock("l").with(watched(LEASE));

    let reader = lock.read().await.unwrap();
    let hash = raw.hgetall("l").await;
    let [(owner, count)] = &holds(&server, "l").await[..] else { panic!("{hash:?}") };
    assert_eq!((hash["mode"].as_str(), count.as_str()), ("read", "1"), "{hash:?}");
    let (uuid, hold) = owner.split_once(':').unwrap();
    assert_eq!((uuid.len(), hold), (36, "1"));
    let hold_end = format!("{{l}}:{owner}:rwlock_timeout:1");
    let counter = "redisson_lock_token:{l}";
    assert_eq!(raw.keys().await, ["l", counter, &hold_end]);
    assert_eq!(raw.get::<String>(&["GET", &hold_end]).await, "1");
    expires_like_a_lease(&raw, &hold_end).await;
    expires_like_a_lease(&raw, "l").await;
    reader.release().await.unwrap();
    assert_eq!(log.wait_for(1, PROMPTLY).await, ["0"]);
    assert_eq!(raw.keys().await, [counter]);

    let writer = lock.write().await.unwrap();
    let hash = raw.hgetall("l").await;
    let owner = format!("{uuid}:2");
    let shown = [("mode", "write"), (&format!("{owner}:write"), "1")];
    let shown = shown.map(|(field, value)| (field.to_owned(), value.to_owned()));
    assert_eq!(hash, BTreeMap::from(shown));
    assert_eq!(raw.keys().await, ["l", counter]);
    expires_like_a_lease(&raw, "l").await;
    let inside = writer.run(lock.read()).await.unwrap().unwrap();
    let hash = raw.hgetall("l").await;
    assert_eq!((hash.len(), hash["mode"].as_str()), (3, "write"), "{hash:?}");
    inside.release().await.unwrap();
    assert_eq!(raw.keys().await, ["l", counter]);
    assert_eq!(log.payloads().len(), 1, "a read side inside a writer published");
    writer.release().await.unwrap();
    assert_eq!(log.wait_for(2, PROMPTLY).await, ["0", "1"]);
    assert_eq!(raw.keys().await, [counter]);
}

/// S-2: a name that carries its own hash tag keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_tag_in_the_name_is_kept() {
    let (server, client) = world().await;
    let guard = client.rw_lock("order:{42}").read().await.unwrap();
    let keys = server.client().keys().await;
    let [name, hold_end, counter] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!((name.as_str(), counter.as_str()), ("order:{42}", "redisson_lock_token:order:{42}"));
    assert!(hold_end.starts_with("order:{42}:") && hold_end.ends_with(":1:rwlock_timeout:1"));
    guard.release().await.unwrap();
}

/// S-6: nothing depends on the count that is shown; whatever it says, its hold counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_count_ends_no_hold() {
    let (server, client) = world().await;
    let other = crate::kinds::rw::connect(&server).await;
    let reader = client.rw_lock("c").read().await.unwrap();
    for count in ["0", "3", "40"] {
        let (owner, _) = holds(&server, "c").await.remove(0);
        server.client().cmd(&["HSET", "c", &owner, count]).await;
        other.rw_lock("c").read().await.unwrap().release().await.unwrap();
        assert!(other.rw_lock("c").try_write().await.unwrap().is_none(), "overlooked at {count}");
    }
    reader.release().await.unwrap();
    nothing_left(&server, "c").await;
}

/// Waiting readers, as processes that have stopped: they hear nothing and ask for nothing.
const ENTER: &str = "
    local ends = redis.call('TIME')[1] * 1000 + 60000
    for n = 1, ARGV[1] do
      redis.call('ZADD', KEYS[1], string.format('%.0f', ends + n % 1000), 'silent:' .. n)
    end
    redis.call('PEXPIRE', KEYS[1], 61000)";

/// The least that the server spends on a grant, its release, and the refusal of the next writer, beside so many readers.
async fn cost_beside(readers: u32) -> Duration {
    let (server, client, other) = world_of_two().await;
    let raw = server.client();
    let mut least = Duration::MAX;
    for round in 0..7 {
        let name = format!("w{round}");
        let places = format!("redisson_rwlock_readers:{{{name}}}");
        raw.cmd(&["EVAL", ENTER, "1", &places, &readers.to_string()]).await;
        server.reset_stats().await;
        let guard = client.rw_lock(&*name).try_write().await.unwrap().expect("no reader is due");
        guard.release().await.unwrap();
        let next = other.rw_lock(&*name).try_write().await.unwrap();
        assert!(next.is_none(), "a second writer overtook {readers} readers");
        let info: String = raw.get(&["INFO", "commandstats"]).await;
        let micros = info.split_once("cmdstat_evalsha:").unwrap().1.split_once("usec=").unwrap().1;
        let micros = micros.split_once(',').unwrap().0.parse().unwrap();
        least = least.min(Duration::from_micros(micros));
    }
    least
}

/// Each had its place scored anew by each grant: 14 ms for these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_costs_the_same_however_many_readers_wait() {
    let (few, many) = (cost_beside(4).await, cost_beside(8_000).await);
    assert!(many < few * 10, "{many:?} beside 8000 readers, and {few:?} beside 4");
}
