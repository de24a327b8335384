//! A server, a Java process and clients of ours.

use lock_runtime::admin::Inspection;

use crate::interop::java::{Asked, Java, Redisson};
pub(crate) use crate::prelude::*;

/// Whoever is told goes on well within this. All that could stand in for being told takes longer: the
/// lease of a holder, 30 s, and the poll cap of our waiters, an hour.
pub(crate) const AT_ONCE: Duration = secs(2);

/// So long that nothing happens in a test because it is over.
pub(crate) const NEVER: Duration = secs(3600);

/// The lease of a watchdog by default, on both sides.
pub(crate) const HALF_A_MINUTE: Duration = secs(30);

pub(crate) type Waiting = JoinHandle<Result<LockGuard, LockError>>;

pub(crate) struct World {
    pub(crate) java: Java,
    pub(crate) server: RedisServer,
    /// Goes on only when told, or when the lease of a holder ends.
    pub(crate) client: LockClient,
}

impl World {
    pub(crate) async fn with(redisson: Redisson) -> Self {
        let server = RedisServer::start().await;
        let java = Java::start(&server, &redisson).await;
        let client = LockClient::builder().poll_cap(NEVER).connect(&server.url()).await.unwrap();
        Self { java, server, client }
    }

    /// What a client of ours sees of the name.
    pub(crate) async fn seen(&self, name: &str) -> Inspection {
        self.client.admin().inspect(name).await.unwrap()
    }

    /// Asserts that a client of ours sees the name held as that, so often by each holder, with a lease
    /// that was of this length a moment ago.
    pub(crate) async fn sees(&self, name: &str, kind: HoldKind, counts: &[u32], lease: Duration) {
        let seen = self.seen(name).await;
        let mut found: Vec<_> = seen.holders.iter().map(|holder| holder.count).collect();
        found.sort_unstable();
        assert_eq!((seen.kind, &found[..]), (Some(kind), counts), "{seen:?}");
        assert!(seen.holders.iter().all(|holder| holder.client.len() == 36), "{seen:?}");
        let left = seen.remaining.expect("it has an end");
        assert!(left <= lease && left > lease.mul_f32(0.6), "{left:?} of {lease:?}");
    }

    /// Asserts that Redisson sees the name held by another client, with a lease that was of this
    /// length a moment ago.
    pub(crate) async fn java_sees(&mut self, kind: &str, name: &str, lease: Duration) {
        for (word, answer) in [("locked", "true"), ("mine", "false"), ("holds", "0")] {
            let found = self.java.ask("looks", &format!("{word} {kind} {name}")).await;
            assert_eq!(found, answer, "{word} {kind} {name}");
        }
        let left = self.java.ask("looks", &format!("left {kind} {name}")).await;
        let left = ms(left.parse().unwrap());
        assert!(left <= lease && left > lease.mul_f32(0.6), "{left:?} of {lease:?}");
    }

    /// Asserts that Redisson is refused the lock, without and with a wait.
    pub(crate) async fn java_is_refused(&mut self, kind: &str, name: &str) {
        for words in [format!("try {kind} {name}"), format!("try {kind} {name} 50 -1")] {
            assert_eq!(self.java.ask("tries", &words).await, "false", "{words}");
        }
    }

    /// Asserts that the Java thread `t` is told that it does not have the lock.
    pub(crate) async fn java_cannot_unlock(&mut self, kind: &str, name: &str) {
        let error = self.java.throws("t", &format!("unlock {kind} {name}")).await;
        assert!(error.starts_with("IllegalMonitorStateException"), "{error}");
    }

    /// A Java thread that waits for the lock, once it listens there: `channel` has no listeners but
    /// this one's.
    pub(crate) async fn java_waits(&mut self, thread: &str, words: &str, channel: &str) -> Asked {
        let asked = self.java.begin(thread, words);
        self.server.wait_for_subscribers(channel, 1).await;
        self.java.is_parked(thread).await;
        assert!(self.java.is_busy(&asked).await, "`{words}` did not wait");
        asked
    }

    /// A task that waits for the lock, once it listens there like so many others.
    pub(crate) async fn waits(
        &self,
        acquire: impl Future<Output = Result<LockGuard, LockError>> + Send + 'static,
        channel: &str,
    ) -> Waiting {
        let waiting = lock_tests::spawn(acquire);
        self.server.wait_for_subscribers(channel, 1).await;
        assert!(!waiting.is_finished(), "it did not wait");
        waiting
    }

    /// Waits until nothing of the lock is left but its fencing counter.
    pub(crate) async fn nothing_left(&self, name: &str) {
        // Redisson's clients leave some of it to the ends of its keys.
        soon!("nothing is left", left_of(&self.server.client(), name).await.is_empty());
    }
}

/// A process of ours that takes locks when told to, with this waiter lease.
pub(crate) async fn worker(server: &RedisServer, history: &Path, waiter_lease: &str) -> Worker {
    let args = ["locks", &server.url(), history.to_str().unwrap(), waiter_lease];
    let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &args, &[]);
    assert_eq!(worker.next_line(SOON).await, "ready");
    worker
}

/// The guard of a waiter that has been told.
pub(crate) async fn got(waiting: Waiting) -> LockGuard {
    let guard = timeout(AT_ONCE, waiting).await.expect("not told");
    guard.unwrap().unwrap()
}

/// Where releases of a mutex are told.
pub(crate) fn lock_channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// Where releases of a read/write lock are told.
pub(crate) fn rw_channel(name: &str) -> String {
    format!("redisson_rwlock:{{{name}}}")
}
