//! `#[distributed_lock]` at run time; what it refuses to compile is in `tests/ui`.

use crate::prelude::*;

#[derive(Clone)]
struct Bank {
    locks: LockClient,
    inside: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
}

impl Bank {
    fn new(locks: LockClient) -> Self {
        Self { locks, inside: Arc::default(), most: Arc::default() }
    }

    async fn work(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        sleep(ms(20)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    #[distributed_lock(key = "acct:{id}", client = self.locks)]
    async fn post(&self, id: u64) -> Result<u64, LockError> {
        self.work().await;
        Ok(id)
    }

    #[distributed_lock(key = "acct:{id}", client = self.locks, guard = hold)]
    async fn post_twice(&self, id: u64) -> Result<u64, LockError> {
        self.post(id).await?;
        self.post(id).await?;
        Ok(hold.token().get())
    }

    #[distributed_lock(key = "job", client = self.locks, on_busy = skip)]
    async fn tick(&self) -> Option<&'static str> {
        self.work().await;
        Some("ran")
    }

    #[distributed_lock(key = "slow", client = self.locks, lease = "200ms")]
    async fn too_slow(&self, ended: &AtomicU32) -> Result<(), LockError> {
        sleep(secs(60)).await;
        ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[distributed_lock(key = "slow", client = self.locks, lease = "200ms", on_lost = finish)]
    async fn slow_but_finished(&self, ended: &AtomicU32) -> Result<(), LockError> {
        sleep(ms(400)).await;
        ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[distributed_lock(key = "fails", client = self.locks)]
    async fn fails(&self) -> Result<(), Failure> {
        Err(Failure::Body)
    }
}

#[derive(Debug)]
enum Failure {
    Body,
    Lock,
}

impl From<LockError> for Failure {
    fn from(_: LockError) -> Self {
        Self::Lock
    }
}

/// S-6: two calls side by side in one task exclude each other; on other keys they do not.
#[tokio::test(start_paused = true)]
async fn joined_calls_exclude_each_other() {
    let bank = Bank::new(LockClient::in_memory());
    let (a, b, c) = tokio::join!(bank.post(1), bank.post(1), bank.post(1));
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(bank.most.load(Ordering::SeqCst), 1);
    let (a, b) = tokio::join!(bank.post(1), bank.post(2));
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(bank.most.load(Ordering::SeqCst), 2);
}

/// S-6: a nested annotated call on the same key sends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_call_sends_nothing() {
    let server = RedisServer::start().await;
    let bank = Bank::new(connect(&server).await);
    bank.post(7).await.unwrap();
    server.reset_stats().await;
    let token = bank.post_twice(7).await.unwrap();
    assert!(token > 0);
    let calls = server.command_calls().await;
    // One to take and one to give back, for three calls.
    assert_eq!(calls["publish"], 1, "{calls:?}");
    assert_eq!(calls["time"], 1, "{calls:?}");
    assert!(!server.client().exists("acct:7").await);
}

/// A scheduled job runs on one of those who try.
#[tokio::test(start_paused = true)]
async fn a_busy_job_is_skipped() {
    let bank = Bank::new(LockClient::in_memory());
    let (a, b) = tokio::join!(bank.tick(), bank.tick());
    assert_eq!([a, b].iter().flatten().count(), 1);
    assert_eq!(bank.tick().await, Some("ran"));
}

/// S-13: the default cuts the body off, `finish` lets it end; both report.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_reported() {
    let bank = Bank::new(LockClient::in_memory());
    let ended = AtomicU32::new(0);
    let error = bank.too_slow(&ended).await.unwrap_err();
    assert!(error.is_lost() && ended.load(Ordering::SeqCst) == 0, "{error:?}");
    let error = bank.slow_but_finished(&ended).await.unwrap_err();
    assert!(error.is_lost() && ended.load(Ordering::SeqCst) == 1, "{error:?}");
    assert_eq!(OnLost::default(), OnLost::Cancel);
}

/// The body's own error is its own, and the lock is free after it.
#[tokio::test(start_paused = true)]
async fn an_error_of_the_body_passes_through() {
    let bank = Bank::new(LockClient::in_memory());
    for _ in 0..2 {
        assert!(matches!(bank.fails().await, Err(Failure::Body)));
    }
    bank.locks.shutdown(secs(1)).await;
    assert!(matches!(bank.fails().await, Err(Failure::Lock)));
}

/// S-20: an annotated call that is dropped half way leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_nothing() {
    let server = RedisServer::start().await;
    let bank = Bank::new(connect(&server).await);
    let call = tokio::time::timeout(ms(10), bank.post(9)).await;
    assert!(call.is_err());
    eventually(secs(5), "it is free", async || !server.client().exists("acct:9").await).await;
}
