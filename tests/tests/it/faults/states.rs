//! A server that answers, but not with what was asked for: READONLY, MISCONF, LOADING, BUSY (S-33).

use std::path::PathBuf;

use crate::prelude::*;

/// Longer than any of the states here.
const PATIENT: Duration = secs(60);

/// Two clients and a hold, made while the server is well.
struct World {
    server: RedisServer,
    impatient: LockClient,
    patient: LockClient,
    patience: Duration,
}

impl World {
    async fn start() -> Self {
        let server = RedisServer::start().await;
        let client = async |patience| {
            let builder = LockClient::builder().store_patience(patience);
            builder.connect(&server.url()).await.unwrap()
        };
        let patience = ms(700);
        let (impatient, patient) = (client(patience).await, client(PATIENT).await);
        Self { impatient, patient, patience, server }
    }

    /// A side channel of its own, for a command that takes long.
    fn side_channel(&self) -> RawClient {
        RawClient::new(&self.server.url())
    }

    /// A lock is asked for again until patience ends, a hold survives, and all goes on afterwards.
    async fn ride_out(
        self,
        code: &str,
        enter: impl AsyncFnOnce(&RedisServer),
        leave: impl AsyncFnOnce(&RedisServer),
    ) {
        let kept = self.patient.mutex("kept").lock().await.unwrap();
        let given_back = self.patient.mutex("given-back").lock().await.unwrap();
        enter(&self.server).await;

        let start = Instant::now();
        let lock = self.impatient.mutex("impatient").lock();
        let error = timeout(SOON, lock).await.expect("waits for ever").unwrap_err();
        let LockError::Store(cause) = &error else { panic!("{error:?}") };
        assert_eq!(cause.kind(), StoreErrorKind::NotReady, "{error:?}");
        assert!(cause.to_string().contains(code), "{cause}");
        assert!(error.is_retryable());
        let waited = start.elapsed();
        assert!(waited >= self.patience, "gave up after {waited:?}");
        assert!(waited < self.patience + secs(2), "gave up after {waited:?}");

        let mutex = self.patient.mutex("patient");
        let mut waiting = lock_tests::spawn(async move { mutex.lock().await });
        let mut releasing = lock_tests::spawn(given_back.release());
        let during = ms(200);
        assert!(timeout(during, &mut waiting).await.is_err(), "the server still grants locks");
        assert!(timeout(during, &mut releasing).await.is_err(), "the server still frees locks");
        leave(&self.server).await;

        let guard = timeout(SOON, waiting).await.expect("not asked again").unwrap().unwrap();
        timeout(SOON, releasing).await.expect("not asked again").unwrap().unwrap();
        guard.release().await.unwrap();
        kept.release().await.unwrap();
        let raw = self.server.client();
        for name in ["kept", "given-back", "patient", "impatient"] {
            assert!(!raw.exists(name).await, "{name} was left behind");
        }
        self.impatient.mutex("impatient").lock().await.unwrap().release().await.unwrap();
        // It was the server that said no, and it was asked more than once in a while.
        let info: String = raw.get(&["INFO", "errorstats"]).await;
        let refusals = info.lines().find_map(|line| {
            line.strip_prefix(&format!("errorstat_{code}:count="))?.parse::<u64>().ok()
        });
        assert!(refusals.is_some_and(|times| times >= 10), "{code}: {info}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_ridden_out() {
    let enter = async |server: &RedisServer| {
        // Nobody is there to follow, so it keeps its data.
        server.client().cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    };
    let leave = async |server: &RedisServer| {
        server.client().cmd(&["REPLICAOF", "NO", "ONE"]).await;
    };
    World::start().await.ride_out("READONLY", enter, leave).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_save_is_ridden_out() {
    async fn save(raw: &RawClient, outcome: &str) {
        let outcome = format!("rdb_last_bgsave_status:{outcome}");
        soon!(&outcome, {
            let _ = raw.try_cmd(&["BGSAVE"]).await;
            raw.get::<String>(&["INFO", "persistence"]).await.contains(&outcome)
        });
    }
    async fn snapshot(raw: &RawClient) -> PathBuf {
        let (_, dir): (String, String) = raw.get(&["CONFIG", "GET", "dir"]).await;
        PathBuf::from(dir).join("dump.rdb")
    }
    let enter = async |server: &RedisServer| {
        let raw = server.client();
        raw.cmd(&["CONFIG", "SET", "save", "3600 1000000"]).await;
        // In the way of the file, whoever runs the tests.
        std::fs::create_dir(snapshot(&raw).await).unwrap();
        save(&raw, "err").await;
    };
    let leave = async |server: &RedisServer| {
        let raw = server.client();
        std::fs::remove_dir(snapshot(&raw).await).unwrap();
        save(&raw, "ok").await;
    };
    World::start().await.ride_out("MISCONF", enter, leave).await;
}

/// A server that loads its data answers nothing else meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_is_ridden_out() {
    let world = World::start().await;
    let side_channel = world.side_channel();
    let reload = std::cell::Cell::new(None);
    let enter = async |server: &RedisServer| {
        let raw = server.client();
        let fill = "for i = 1, 3000 do redis.call('SET', 'fill:' .. i, string.rep('x', 1024)) end";
        raw.cmd(&["EVAL", fill, "0"]).await;
        // Half a minute unless told otherwise, with a look at the connections after each key.
        raw.cmd(&["CONFIG", "SET", "rdbcompression", "no"]).await;
        raw.cmd(&["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]).await;
        raw.cmd(&["CONFIG", "SET", "key-load-delay", "10000"]).await;
        let load = async move { side_channel.try_cmd(&["DEBUG", "RELOAD"]).await };
        reload.set(Some(lock_tests::spawn(load)));
        soon!(
            "it loads",
            raw.get::<String>(&["INFO", "persistence"]).await.contains("\r\nloading:1")
        );
    };
    let leave = async |server: &RedisServer| {
        server.client().cmd(&["CONFIG", "SET", "key-load-delay", "0"]).await;
        let reload = reload.take().expect("it was started");
        timeout(SOON, reload).await.expect("loads for ever").unwrap().unwrap();
    };
    world.ride_out("LOADING", enter, leave).await;
}

/// A server whose one thread is in another client's endless script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_is_ridden_out() {
    let world = World::start().await;
    let side_channel = world.side_channel();
    let script = std::cell::Cell::new(None);
    let enter = async |server: &RedisServer| {
        let raw = server.client();
        raw.cmd(&["CONFIG", "SET", "lua-time-limit", "10"]).await;
        let endless =
            async move { side_channel.try_cmd(&["EVAL", "while true do end", "0"]).await };
        script.set(Some(lock_tests::spawn(endless)));
        soon!(
            "it is busy",
            raw.try_cmd(&["PING"]).await.is_err_and(|error| error.code() == Some("BUSY"))
        );
    };
    let leave = async |server: &RedisServer| {
        server.client().cmd(&["SCRIPT", "KILL"]).await;
        let script = script.take().expect("it was started");
        timeout(SOON, script).await.expect("runs on").unwrap().unwrap_err();
    };
    world.ride_out("BUSY", enter, leave).await;
}
