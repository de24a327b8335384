//! One script has at most 256 keys, however many holds and names there are: the server serves nobody else while
//! it runs one.

use lock_runtime::options::MAX_MULTI_NAMES;

use crate::prelude::*;

const MAX_KEYS: usize = 256;

type SlowLogEntry = (u64, u64, u64, Vec<String>, String, String);

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}:{number}")).collect()
}

/// How many keys each script had since the log was reset.
async fn keys_of_scripts(raw: &RawClient) -> Vec<usize> {
    let log: Vec<SlowLogEntry> = raw.get(&["SLOWLOG", "GET", "10000"]).await;
    let scripts = log.into_iter().filter(|(_, _, _, words, ..)| words[0] == "EVALSHA");
    scripts.map(|(_, _, _, words, ..)| words[2].parse().unwrap()).collect()
}

/// Has the server log all commands from here on.
async fn log_all(raw: &RawClient) {
    raw.cmd(&["CONFIG", "SET", "slowlog-max-len", "100000"]).await;
    raw.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    // An acquire may have been slow enough for the log by itself.
    raw.cmd(&["SLOWLOG", "RESET"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_many_names_are_renewed_by_several_scripts() {
    let (server, client) = world().await;
    let raw = server.client();
    let taken = (0..5).map(|number| {
        let names = names(&format!("of:{number}"), MAX_MULTI_NAMES);
        client.multi_lock(names).with(watched(secs(6))).lock()
    });
    let guards: Vec<_> = join_all(taken).await.into_iter().map(Result::unwrap).collect();
    log_all(&raw).await;
    soon!("they are renewed", keys_of_scripts(&raw).await.iter().sum::<usize>() >= 600);
    release_all(guards).await;
    assert!(client.shutdown(SOON).await.is_clean());
    let most = keys_of_scripts(&raw).await.into_iter().max().unwrap();
    assert!(most <= MAX_KEYS, "a script has {most} keys");
}

fn is_refused<T: std::fmt::Debug>(outcome: Result<T, LockError>) {
    match outcome {
        Err(LockError::InvalidOptions(message)) => {
            assert!(message.contains("129") && message.contains("128"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[distributed_lock(keys = names)]
async fn with_all(names: Vec<LockKey>) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_names_are_refused() {
    let server = RedisServer::start().await;
    for client in [LockClient::in_memory(), connect(&server).await] {
        let most = names("m", MAX_MULTI_NAMES);
        let more = names("m", MAX_MULTI_NAMES + 1);
        is_refused(client.multi_lock(&more).lock().await);
        let of = |names: &[String]| {
            MultiLock::of(names.iter().map(|name| MultiMember::from(client.fair_mutex(name))))
        };
        is_refused(of(&more).lock().await);
        let keys = |names: &[String]| -> Vec<LockKey> {
            names.iter().map(|name| LockKey::new(name).unwrap()).collect()
        };
        is_refused(client.scope(with_all(keys(&more))).await);
        // The same name twice is once.
        let twice = most.iter().chain(&most);
        client.multi_lock(twice).lock().await.unwrap().release().await.unwrap();
        client.scope(with_all(keys(&most))).await.unwrap();
    }
}
