//! The names in use on real servers: what else is there, how long each call takes, permissions, slots that move (S-35).

use lock_runtime::store::{ClusterStore, NamesCursor};

use super::world::{acquire_all, key, names, pages, set};
use crate::prelude::*;

/// An owner as Redisson names its own.
const OWNER: &str = "3b241101-e2bb-4255-8caf-4136c566a962:57";

async fn start() -> (RedisServer, RedisStore) {
    let server = RedisServer::start().await;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    (server, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_data_is_not_listed() {
    let (server, store) = start().await;
    let client = server.client();
    for words in [
        &["SET", "text", "some"][..],
        &["SET", "number", "42"],
        &["HSET", "user", "name", "Ada", "born", "1815"],
        &["HSET", "mode alone", "mode", "read"],
        &["HSET", "another mode", "mode", "dark", OWNER, "1"],
        &["HSET", "sessions", OWNER, "cookie"],
        &["HSET", "no uuid", "host:17", "1"],
        &["HSET", "redisson_lock_token:{x}", OWNER, "1"],
        &["HSET", "a\nb", OWNER, "1"],
        &["HSET", "un{balanced", OWNER, "1"],
        &["LPUSH", "list", OWNER],
        &["SADD", "set", OWNER],
        &["ZADD", "scores", "1", OWNER],
        &["ZADD", "scores:timeout", "1", OWNER],
        &["ZADD", "{scores}:timeout", "1", "Ada"],
        &["ZADD", "redisson_lock_timeout:{x}", "1", "Ada"],
        &["ZADD", "redisson_lock_timeout:x", "1", OWNER],
        &["XADD", "stream", "*", OWNER, "1"],
        &["PFADD", "sketch", OWNER],
    ] {
        client.cmd(words).await;
    }
    assert_eq!(names(&store, "").await, set([""; 0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_redisson_are_listed() {
    let (server, store) = start().await;
    let client = server.client();
    let permit = "0123456789abcde\u{1}";
    for words in [
        &["HSET", "r:plain", OWNER, "2"][..],
        &["HSET", "r:read", "mode", "read", OWNER, "1"],
        &["HSET", "r:write", "mode", "write", &format!("{OWNER}:write"), "1"],
        &["HSET", "r:transaction", &format!("{OWNER}:8f1c"), "1"],
        &["RPUSH", "redisson_lock_queue:{r:fair}", OWNER],
        &["ZADD", "redisson_lock_timeout:{r:fair}", "1", OWNER],
        &["SET", "r:permits", "3"],
        &["ZADD", "{r:permits}:timeout", "9e15", permit],
        // Both forms of a name have permits: the companion is one.
        &["SET", "r:both", "3"],
        &["SET", "{r:both}", "3"],
        &["ZADD", "{r:both}:timeout", "9e15", permit],
        &["SET", "r:{x}:tagged", "3"],
        &["ZADD", "r:{x}:tagged:timeout", "9e15", permit],
    ] {
        client.cmd(words).await;
    }
    let plain = ["plain", "read", "write", "transaction", "fair", "permits", "both", "{x}:tagged"];
    let plain = set(plain.map(|name| format!("r:{name}")));
    assert_eq!(names(&store, "r:").await, plain);
    assert_eq!(names(&store, "{r").await, set(["{r:both}"]));
}

/// How many microseconds the server takes for a call, on average.
async fn micros(server: &RedisServer, command: &str) -> f64 {
    let stats: String = server.client().get(&["INFO", "commandstats"]).await;
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    let value = line.and_then(|line| line.split_once("usec_per_call=")).map(|(_, value)| value);
    value.and_then(|value| value.split(',').next()).expect("it was called").parse().unwrap()
}

/// 10 000 locks, one of them with 10 000 readers, among 50 000 other keys: no call takes the server as long as it takes to read the
/// readers. A busy machine may stop the server in any call, so the averages of the best of several listings count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_takes_the_server_little_time() {
    let (server, store) = start().await;
    let client = server.client();
    let fill = "for i = 1, 10000 do
            redis.call('HSET', 'l:' .. i, ARGV[1], 1)
            redis.call('HSET', 'l:crowd', string.sub(ARGV[1], 1, 37) .. i, 1)
            for j = 1, 5 do redis.call('SET', 'l:other:' .. i .. ':' .. j, i) end
            redis.call('HSET', 'l:long', 'field' .. i, 1)
        end
        redis.call('HSET', 'l:crowd', 'mode', 'read')";
    client.cmd(&["EVAL", fill, "0", OWNER]).await;
    let mut expected = set((1..=10_000).map(|number| format!("l:{number}")));
    expected.insert("l:crowd".to_owned());
    let (mut least, mut readers) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..5 {
        server.reset_stats().await;
        let (found, pages) = pages(&store, "l:").await;
        assert_eq!(set(found), expected);
        assert!(pages > 200, "{pages} pages for 60 000 keys");
        let calls = server.command_calls().await;
        assert!(calls["scan"] == pages as u64 && !calls.contains_key("keys"), "{calls:?}");
        assert!(!calls.contains_key("hgetall") && calls["evalsha"] < 13_000, "{calls:?}");
        least = least.min(micros(&server, "scan").await.max(micros(&server, "evalsha").await));
        client.cmd(&["HGETALL", "l:crowd"]).await;
        readers = readers.min(micros(&server, "hgetall").await);
    }
    println!("{least} µs for a call, {readers} µs for all readers");
    assert!(least < readers / 3.0, "{least} µs, and {readers} µs for all readers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_permissions_are_named() {
    let server = RedisServer::start().await;
    let url = |user: &str| format!("redis://{user}:pw@127.0.0.1:{}", server.port());
    let client = server.client();
    client.cmd(&["ACL", "SETUSER", "noscan", "on", ">pw", "~*", "&*", "+@all", "-scan"]).await;
    client.cmd(&["ACL", "SETUSER", "some", "on", ">pw", "~m:*", "&*", "+@all"]).await;
    let store = RedisStore::connect(&url("noscan")).await.unwrap();
    acquire_all(&store, &["m:1", "n:1"].map(|name| Target::mutex(key(name)))).await;
    let error = store.names("", NamesCursor::start(), SOON).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.to_string().contains("`+scan`"), "{error}");
    // A user who may read only some keys gets their names.
    let store = RedisStore::connect(&url("some")).await.unwrap();
    assert_eq!(names(&store, "").await, set(["m:1"]));
}

/// Slots move from masters that the listing has not reached to one that it has, and back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_slot_keeps_its_names_in_the_list() {
    let cluster = RedisCluster::start().await;
    let store = ClusterStore::connect([cluster.node(0).url()]).await.unwrap();
    let expected = set((0..900).map(|number| format!("m:{number}")));
    let targets: Vec<_> = expected.iter().map(|name| Target::mutex(key(name))).collect();
    acquire_all(&store, &targets).await;
    let mut found = BTreeSet::new();
    let (mut next, mut listed, mut visited) = (Some(NamesCursor::start()), 0, 0);
    let mut moved = false;
    while let Some(from) = next {
        let page = store.names("m:", from, SOON).await.unwrap();
        listed += page.names.len();
        found.extend(page.names.iter().map(|name| name.as_str().to_owned()));
        next = page.next;
        visited += 1;
        // A name that has not been listed goes to the master of the first ones.
        let first = page.names.first().map_or("", |it| it.as_str());
        let here = cluster.owner(cluster.slot(first).await).await;
        if !moved && visited > 2 {
            for name in expected.difference(&found).take(3) {
                let slot = cluster.slot(name).await;
                if cluster.owner(slot).await != here {
                    cluster.move_slot(slot, here, &[], async {}).await;
                    moved = true;
                }
            }
        }
        assert!(visited < 200, "it does not end");
    }
    assert!(moved, "nothing has moved");
    assert_eq!(found, expected);
    assert!(listed < 2_000, "{listed} names");
}
